// What a model that learns is made of, for one thread of WebAssembly: its heap, products of matrices, linear layers,
// the loss and AdamW. Compiled without SIMD, four numbers at a time become one at a time, with the same bits.

typedef float f4 __attribute__((vector_size(16), aligned(4)));
typedef int i4 __attribute__((vector_size(16), aligned(4)));

#define EXPORT(name) __attribute__((export_name(name)))
#define APART __attribute__((noinline))  // once in the file, wherever it is called: a page fetches it
__attribute__((import_module("env"), import_name("log"))) double natural_log(double);
__attribute__((import_module("env"), import_name("exp"))) double natural_exp(double);
extern unsigned char __heap_base;

// ---------------------------------------------------------------------------------- the heap
static float *top;

// Room for numbers, zeros at first; stops where there is no more memory.
APART static float *take(int floats) {
  float *at = top;
  top += (floats + 3) & ~3;
  const unsigned pages = ((unsigned)top + 65535) >> 16, have = __builtin_wasm_memory_size(0);
  if (pages > have && __builtin_wasm_memory_grow(0, pages - have) == (unsigned long)-1) __builtin_trap();
  return at;
}

// Parameters lie one after the other in the order of the library's `state_dict`, a linear layer as (out, in);
// gradients and both moments of AdamW lie behind them, each as the parameters do.
static float *parameters, *gradients, *moments, *squares;
static int count;     // of the parameters
static float *given;  // to layers: parameters up to here

static void begin(int all) {
  count = all, top = (float *)(((unsigned)&__heap_base + 15) & ~15u);
  parameters = given = take(all), gradients = take(all), moments = take(all), squares = take(all);
}

static float *parameter(int floats) {
  given += floats;
  return given - floats;
}

static float *gradient(const float *parameter) { return gradients + (parameter - parameters); }

// ---------------------------------------------------------------------------------- products
// ROWS x 4 COLUMNS numbers of a product, held in registers while it runs along: two rows of sixteen are what
// the sixteen registers of a PC hold with what they are made from; without SIMD, two of four.
#ifdef __wasm_simd128__
enum { WIDE = 4 };
#else
enum { WIDE = 1 };
#endif
#define ALL(i, count) _Pragma("unroll") for (int i = 0; i < count; i++)
#define BLOCK(ROWS, COLUMNS)                                                                                            \
  do {                                                                                                                  \
    const float *a = A + r * down, *b = B + c;                                                                          \
    f4 sums[ROWS][COLUMNS];                                                                                             \
    ALL(i, ROWS)                                                                                                        \
      ALL(j, COLUMNS)                                                                                                   \
        sums[i][j] = from ? *(const f4 *)(from + (r + i) * step + c + 4 * j) : (f4){0, 0, 0, 0};                        \
    for (int k = 0; k < inner; k++, a += along, b += below)                                                             \
      ALL(i, ROWS) ALL(j, COLUMNS) sums[i][j] += a[i * down] * *(const f4 *)(b + 4 * j);                                \
    ALL(i, ROWS) ALL(j, COLUMNS) *(f4 *)(C + (r + i) * next + c + 4 * j) = sums[i][j];                                  \
  } while (0)

// C (rows, columns) = A (rows, inner) B (inner, columns) + what lies at `from`, by rows of `step`, unless it is
// null: C itself, or with a step of 0 one row for all. A is read by two strides, so that it may be a transpose;
// B and C by rows.
APART static void product(const float *A, int down, int along, const float *B, int below, float *C,
                          int next, int rows, int inner, int columns, const float *from, int step) {
  const int whole = columns & ~3, even = rows & ~1;
  int c = 0;
  for (; c + 4 * WIDE <= whole; c += 4 * WIDE)  // so many columns of B stay in the nearest cache
    for (int r = 0; r < even; r += 2) BLOCK(2, WIDE);
  for (; c < whole; c += 4)
    for (int r = 0; r < even; r += 2) BLOCK(2, 1);
  for (int r = even, c = 0; r < rows && c < whole; c += 4) BLOCK(1, 1);
  for (int i = 0; i < rows; i++)  // the last columns, where their number is no multiple of four
    for (int c = whole; c < columns; c++) {
      float sum = from ? from[i * step + c] : 0;
      for (int k = 0; k < inner; k++) sum += A[i * down + k * along] * B[k * below + c];
      C[i * next + c] = sum;
    }
}

// ---------------------------------------------------------------------------------- small things
static f4 larger(f4 a, f4 b) {  // a, where it is NaN
  const i4 less = a < b;
  return (f4)((less & (i4)b) | (~less & (i4)a));
}

static float sum_of(f4 x) { return x[0] + x[1] + x[2] + x[3]; }

APART static void plus(const float *a, const float *b, float *y, int n) {
  for (int i = 0; i < n; i += 4) *(f4 *)(y + i) = *(const f4 *)(a + i) + *(const f4 *)(b + i);
}

APART static void copy(const float *from, float *to, int n) { __builtin_memcpy(to, from, 4u * n); }
APART static void clear(float *x, int n) { __builtin_memset(x, 0, 4u * n); }

static float *scratch;

// x (rows, columns), by rows of `next`, into scratch (columns, rows), by rows of `across`.
APART static void turn(const float *x, int next, int rows, int columns, int across) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) scratch[c * across + r] = x[r * next + c];
}

// ---------------------------------------------------------------------------------- linear layers
static struct { float *at; int n; } decayed[64];  // weights that AdamW makes smaller, in their order
static int decaying;

static float *matrix(int floats) {
  decayed[decaying].at = given, decayed[decaying++].n = floats;
  return parameter(floats);
}

typedef struct {
  float *weight, *bias;
  int in, out, along, next;  // along, next: from a row of its inputs, and of its outputs, to the next
} Linear;

static Linear linear_of(int in, int out) {
  float *weight = matrix(in * out);
  return (Linear){weight, parameter(out), in, out, in, out};
}

APART static void linear(Linear l, const float *x, float *y, int rows) {
  turn(l.weight, l.in, l.out, l.in, l.out);
  product(x, l.along, 1, scratch, l.out, y, l.next, rows, l.in, l.out, l.bias, 0);
}

// Adds to the gradients of weight and bias; sets that of x unless it is null, or adds to it.
APART static void linear_back(Linear l, const float *x, const float *gy, float *gx, int rows, int add) {
  float *gw = gradient(l.weight), *gb = gradient(l.bias);
  for (int k = 0; k < rows; k += 128) {  // what fits into the nearest cache
    const int some = rows - k < 128 ? rows - k : 128;
    product(gy + k * l.next, 1, l.next, x + k * l.along, l.along, gw, l.in, l.out, some, l.in, gw, l.in);
  }
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < l.out; i++) gb[i] += gy[r * l.next + i];
  if (gx) product(gy, l.next, 1, l.weight, l.in, gx, l.along, rows, l.out, l.in, add ? gx : 0, l.along);
}

// ---------------------------------------------------------------------------------- the loss
static int batch, classes;
static float *logits, *dlogits;

// Shares of numbers that add up to 1; returns the logarithm of what each is e^z of.
APART static double softmax(const double *z, double *shares) {
  double most = z[0], total = 0;
  for (int c = 1; c < classes; c++) most = z[c] > most ? z[c] : most;
  for (int c = 0; c < classes; c++) total += natural_exp(z[c] - most);
  const double log = natural_log(total) + most;
  for (int c = 0; c < classes; c++) shares[c] = natural_exp(z[c] - log);
  return log;
}

// Mean cross-entropy of the logits of a full batch, and its gradient. twice: of the softmax of the logits, as if that
// were the logits.
static double cross_entropy(const int *labels, double smoothing, int twice) {
  double loss = 0, z[classes], first[classes], shares[classes];
  for (int i = 0; i < batch; i++) {
    float *g = dlogits + i * classes;
    for (int c = 0; c < classes; c++) z[c] = logits[i * classes + c];
    if (twice) softmax(z, first);
    const double *seen = twice ? first : z, log = softmax(seen, shares);
    for (int c = 0; c < classes; c++) {
      const double target = smoothing / classes + (c == labels[i] ? 1 - smoothing : 0);
      loss -= target * (seen[c] - log);
      g[c] = shares[c] = (shares[c] - target) / batch;
    }
    if (!twice) continue;
    double mean = 0;
    for (int c = 0; c < classes; c++) mean += first[c] * shares[c];
    for (int c = 0; c < classes; c++) g[c] = first[c] * (shares[c] - mean);
  }
  return loss / batch;
}

// ---------------------------------------------------------------------------------- AdamW
// One step of it (Loshchilov and Hutter 2019), the number of which is `step`, from 1. What multiplies decays; biases,
// norms, positions and the class token do not.
APART static void adamw(float *from, int n, float keep, float rate, float root) {
  float *g = gradients + (from - parameters), *m = moments + (from - parameters), *s = squares + (from - parameters);
  for (int i = 0; i < n; i++) {
    m[i] += 0.1f * (g[i] - m[i]);
    s[i] = 0.999f * s[i] + 0.001f * g[i] * g[i];
    from[i] = from[i] * keep - rate * m[i] / (__builtin_sqrtf(s[i]) * root + 1e-8f);
  }
}

EXPORT("update")
void update(int step, double rate, double decay) {
  double one = 1, two = 1;
  for (int i = 0; i < step; i++) one *= 0.9, two *= 0.999;
  const float keep = 1 - rate * decay, scaled = rate / (1 - one), root = 1 / __builtin_sqrt(1 - two);
  float *rest = parameters;
  for (int i = 0; i < decaying; i++) {
    adamw(rest, decayed[i].at - rest, 1, scaled, root);
    adamw(decayed[i].at, decayed[i].n, keep, scaled, root);
    rest = decayed[i].at + decayed[i].n;
  }
  adamw(rest, parameters + count - rest, 1, scaled, root);
}
