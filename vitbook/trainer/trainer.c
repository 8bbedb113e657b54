// A Vision Transformer that learns: forward, backward and AdamW, for one thread of WebAssembly.
//
// It is the library's `vit` of one channel with a class token (Dosovitskiy et al. 2021, equations 1 to
// 4), or with its norms behind the branches. Its parameters lie one after the other in the order of the
// library's `state_dict`, a linear layer as (out, in); gradients and both moments of AdamW lie behind
// them, each as the parameters do. Compiled without SIMD, four numbers at a time become one at a time.

typedef float f4 __attribute__((vector_size(16), aligned(4)));
typedef int i4 __attribute__((vector_size(16), aligned(4)));

#define EXPORT(name) __attribute__((export_name(name)))
#define APART __attribute__((noinline))  // once in the file, wherever it is called: a page fetches it
__attribute__((import_module("env"), import_name("log"))) double natural_log(double);
__attribute__((import_module("env"), import_name("exp"))) double natural_exp(double);
extern unsigned char __heap_base;

static const float EPS = 1e-6f;
static int batch, width, depth, heads, hidden, patch, side, classes, patches, tokens, padded, post;
static float *parameters, *gradients, *moments, *squares;
static int count;  // of the parameters

// ---------------------------------------------------------------------------------- the heap
static float *top;

static float *take(int floats) {
  float *at = top;
  top += (floats + 3) & ~3;
  return at;
}

// ---------------------------------------------------------------------------------- products
// ROWS x 4 COLUMNS numbers of a product, held in registers while it runs along: two rows of sixteen are what
// the sixteen registers of a PC hold with what they are made from.
#define BLOCK(ROWS, COLUMNS)                                                                          \
  do {                                                                                                \
    const float *a = A + r * down, *b = B + c;                                                        \
    f4 sums[ROWS][COLUMNS];                                                                           \
    for (int i = 0; i < ROWS; i++)                                                                    \
      for (int j = 0; j < COLUMNS; j++)                                                               \
        sums[i][j] = from ? *(const f4 *)(from + (r + i) * step + c + 4 * j) : (f4){0, 0, 0, 0};      \
    for (int k = 0; k < inner; k++, a += along, b += below)                                           \
      _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                \
        _Pragma("unroll") for (int j = 0; j < COLUMNS; j++) sums[i][j] += a[i * down] * *(const f4 *)(b + 4 * j); \
    for (int i = 0; i < ROWS; i++)                                                                    \
      for (int j = 0; j < COLUMNS; j++) *(f4 *)(C + (r + i) * next + c + 4 * j) = sums[i][j];         \
  } while (0)

// C (rows, columns) = A (rows, inner) B (inner, columns) + what lies at `from`, by rows of `step`, unless it is
// null: C itself, or with a step of 0 one row for all. A is read by two strides, so that it may be a transpose;
// B and C by rows.
APART static void product(const float *A, int down, int along, const float *B, int below, float *C,
                                              int next, int rows, int inner, int columns, const float *from, int step) {
  const int whole = columns & ~3;
  int r = 0;
  for (; r + 2 <= rows; r += 2) {
    int c = 0;
    for (; c + 16 <= whole; c += 16) BLOCK(2, 4);
    for (; c < whole; c += 4) BLOCK(2, 1);
  }
  for (int c = 0; r < rows && c < whole; c += 4) BLOCK(1, 1);
  for (int i = 0; i < rows; i++)  // the last columns, where their number is no multiple of four
    for (int c = whole; c < columns; c++) {
      float sum = from ? from[i * step + c] : 0;
      for (int k = 0; k < inner; k++) sum += A[i * down + k * along] * B[k * below + c];
      C[i * next + c] = sum;
    }
}

static float *scratch;

// x (rows, columns), by rows of `next`, into scratch (columns, rows), by rows of `across`.
APART static void turn(const float *x, int next, int rows, int columns, int across) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) scratch[c * across + r] = x[r * next + c];
}

// ---------------------------------------------------------------------------------- elementwise
__attribute__((always_inline)) static f4 exponential(f4 x) {  // relative error below 2e-7, from 2^n and a polynomial on half of ln 2
  x = __builtin_elementwise_max(x, (f4){-87, -87, -87, -87});
  const f4 whole = __builtin_elementwise_floor(x * 1.44269504f + 0.5f);
  const f4 r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  const i4 n = __builtin_convertvector(whole, i4);
  f4 p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r * r + r + 1.0f) * (f4)((n + 127) << 23);
}

static float sum_of(f4 x) { return x[0] + x[1] + x[2] + x[3]; }

APART static void plus(const float *a, const float *b, float *y, int n) {
  for (int i = 0; i < n; i += 4) *(f4 *)(y + i) = *(const f4 *)(a + i) + *(const f4 *)(b + i);
}

APART static void copy(const float *from, float *to, int n) { __builtin_memcpy(to, from, 4u * n); }
APART static void clear(float *x, int n) { __builtin_memset(x, 0, 4u * n); }

// ---------------------------------------------------------------------------------- layers
typedef struct {
  float *weight, *bias;
  int in, out, along, next;  // along, next: from a row of its inputs, and of its outputs, to the next
} Linear;

static Linear linear_of(int in, int out) {
  Linear layer = {parameters + count, parameters + count + in * out, in, out, in, out};
  count += (in + 1) * out;
  return layer;
}

static float *gradient(const float *parameter) { return gradients + (parameter - parameters); }

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

typedef struct {
  float *weight, *bias, *hat, *rate, *out;  // rate: 1 / standard deviation, of each token
} Norm;

static Norm norm_of(int rows) {
  Norm layer = {parameters + count, parameters + count + width, take(rows * width), take(rows), take(rows * width)};
  count += 2 * width;
  return layer;
}

APART static void norm(Norm l, const float *x, float *y, int rows) {
  for (int r = 0; r < rows; r++, x += width, y += width) {
    f4 total = {0, 0, 0, 0}, square = {0, 0, 0, 0};
    for (int i = 0; i < width; i += 4) total += *(const f4 *)(x + i);
    const float mean = sum_of(total) / width;
    for (int i = 0; i < width; i += 4) {
      const f4 c = *(const f4 *)(x + i) - mean;
      square += c * c;
    }
    const float rate = 1 / __builtin_sqrtf(sum_of(square) / width + EPS);
    l.rate[r] = rate;
    for (int i = 0; i < width; i += 4) {
      const f4 hat = (*(const f4 *)(x + i) - mean) * rate;
      *(f4 *)(l.hat + r * width + i) = hat;
      *(f4 *)(y + i) = hat * *(const f4 *)(l.weight + i) + *(const f4 *)(l.bias + i);
    }
  }
}

APART static void norm_back(Norm l, const float *gy, float *gx, int rows, int add) {
  float *gw = gradient(l.weight), *gb = gradient(l.bias);
  for (int r = 0; r < rows; r++, gy += width, gx += width) {
    const float *hat = l.hat + r * width;
    f4 first = {0, 0, 0, 0}, second = {0, 0, 0, 0};
    for (int i = 0; i < width; i += 4) {
      const f4 g = *(const f4 *)(gy + i), h = *(const f4 *)(hat + i), q = g * *(const f4 *)(l.weight + i);
      *(f4 *)(gw + i) += g * h;
      *(f4 *)(gb + i) += g;
      first += q;
      second += q * h;
    }
    const float one = sum_of(first) / width, two = sum_of(second) / width, rate = l.rate[r];
    for (int i = 0; i < width; i += 4) {
      const f4 q = *(const f4 *)(gy + i) * *(const f4 *)(l.weight + i);
      const f4 v = rate * (q - one - *(const f4 *)(hat + i) * two);
      *(f4 *)(gx + i) = add ? *(f4 *)(gx + i) + v : v;
    }
  }
}

// GELU(u) = u Phi(u) into y, and its derivative into slope (Abramowitz and Stegun 7.1.26, error below 1.5e-7).
APART static void gelu(const float *u, float *slope, float *y, int n) {
  for (int i = 0; i < n; i += 4) {
    const f4 x = *(const f4 *)(u + i), bell = exponential(-0.5f * x * x), z = __builtin_elementwise_abs(x) * 0.70710678f;
    const f4 t = 1.0f / (1.0f + 0.3275911f * z);
    const f4 tail = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t * bell;
    const f4 phi = 0.5f + __builtin_elementwise_copysign(0.5f - 0.5f * tail, x);
    *(f4 *)(y + i) = x * phi;
    *(f4 *)(slope + i) = phi + x * bell * 0.39894228f;
  }
}

// ---------------------------------------------------------------------------------- attention
// Weights of each image and head lie as (asking, padded): rows that end in zeros at a multiple of four. The first
// `asking` tokens ask.
APART static void attend(const float *qkv, float *weights, float *out, int images, int asking) {
  const int d = width / heads, row = 3 * width;
  const float scale = 1 / __builtin_sqrtf(d);
  for (int i = 0; i < images; i++)
    for (int h = 0; h < heads; h++) {
      const float *q = qkv + i * tokens * row + h * d, *k = q + width, *v = k + width;
      float *w = weights + (i * heads + h) * asking * padded;
      turn(k, row, tokens, d, padded);
      product(q, row, 1, scratch, padded, w, padded, asking, d, padded, 0, 0);
      for (int t = 0; t < asking; t++, w += padded) {
        float most = w[0];
        for (int j = 1; j < tokens; j++) most = w[j] > most ? w[j] : most;
        f4 total = {0, 0, 0, 0};
        for (int j = 0; j < padded; j += 4) {
          f4 e = exponential((*(f4 *)(w + j) - most) * scale);
          for (int l = tokens - j; l < 4; l++) e[l] = 0;
          *(f4 *)(w + j) = e;
          total += e;
        }
        const float share = 1 / sum_of(total);
        for (int j = 0; j < padded; j += 4) *(f4 *)(w + j) *= share;
      }
      w -= asking * padded;
      product(w, padded, 1, v, row, out + i * asking * width + h * d, width, asking, tokens, d, 0, 0);
    }
}

static float *dscores;

APART static void attend_back(const float *qkv, const float *weights, const float *gout, float *gqkv, int asking) {
  const int d = width / heads, row = 3 * width;
  const float scale = 1 / __builtin_sqrtf(d);
  for (int i = 0; i < batch; i++)
    for (int h = 0; h < heads; h++) {
      const int at = i * tokens * row + h * d;
      const float *q = qkv + at, *k = q + width, *v = k + width, *g = gout + i * asking * width + h * d;
      const float *w = weights + (i * heads + h) * asking * padded;
      float *gq = gqkv + at, *gk = gq + width, *gv = gk + width;
      turn(v, row, tokens, d, padded);
      product(g, width, 1, scratch, padded, dscores, padded, asking, d, padded, 0, 0);
      product(w, 1, padded, g, width, gv, row, tokens, asking, d, 0, 0);
      for (int t = 0; t < asking; t++) {
        float *s = dscores + t * padded;
        const float *p = w + t * padded;
        f4 total = {0, 0, 0, 0};
        for (int j = 0; j < padded; j += 4) total += *(const f4 *)(p + j) * *(f4 *)(s + j);
        const float mean = sum_of(total);
        for (int j = 0; j < padded; j += 4) *(f4 *)(s + j) = scale * *(const f4 *)(p + j) * (*(f4 *)(s + j) - mean);
      }
      product(dscores, padded, 1, k, row, gq, row, asking, tokens, d, 0, 0);
      product(dscores, 1, padded, q, row, gk, row, tokens, asking, d, 0, 0);
    }
}

// ---------------------------------------------------------------------------------- the loss
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

// ---------------------------------------------------------------------------------- the model
typedef struct {
  Norm norm1, norm2;
  Linear qkv, projection, expand, contract;
  float *x, *projected, *weights, *mixed, *middle, *u, *slope, *active, *out;
} Block;

static Block blocks[12];

// How many tokens ask in a block: in the last one the class token alone, which alone is read.
static int asking_in(const Block *b) { return b == blocks + depth - 1 ? 1 : tokens; }

// Queries of the class tokens, and keys and values of all, as parts of one linear layer.
static Linear queries_of(Linear l) { return (Linear){l.weight, l.bias, width, width, tokens * width, tokens * l.next}; }
static Linear others_of(Linear l) {
  return (Linear){l.weight + width * width, l.bias + width, width, 2 * width, width, l.next};
}

static float *prefix, *table, *cut, *embedded, *asker, *dx, *dy, *dh, *dqkv, *du;
static Norm final;
static Linear tokenizer, classifier;

// The number of parameters, or 0 if there is no memory for it.
EXPORT("create")
int create(int batch_, int width_, int depth_, int heads_, int hidden_, int patch_, int side_, int classes_, int positions,
           int post_) {
  batch = batch_, width = width_, depth = depth_, heads = heads_, hidden = hidden_, patch = patch_, side = side_;
  classes = classes_, post = post_;
  patches = (side / patch) * (side / patch), tokens = patches + 1, padded = (tokens + 3) & ~3;
  const int rows = batch * tokens, pixels = patch * patch;
  const int all = width * (1 + pixels + 1 + (positions ? tokens : 0) + (post ? 0 : 2)) + (width + 1) * classes +
                  depth * (4 * width + 3 * width * (width + 1) + width * (width + 1) + hidden * (width + 1) + width * (hidden + 1));
  const int a_block = rows * (width * 11 + 3 * hidden + 3 * width) + batch * heads * tokens * padded + 4 * rows;
  const unsigned floats = 4 * (all + 4) + depth * a_block + rows * (6 * width + 3 * width + hidden) + batch * patches * (pixels + width) +
                          batch * (5 * width + 2 * classes + 8) + tokens * padded +
                          width * (3 * width + hidden + 4 * padded) + 1024;
  const unsigned end = (unsigned)&__heap_base + 4 * floats, pages = (end + 65535) >> 16, have = __builtin_wasm_memory_size(0);
  if (pages > have && __builtin_wasm_memory_grow(0, pages - have) == (unsigned long)-1) return 0;
  top = (float *)(((unsigned)&__heap_base + 15) & ~15u);
  parameters = take(all), gradients = take(all), moments = take(all), squares = take(all);
  clear(moments, all), clear(squares, all);
  count = 0;
  prefix = parameters, count += width;
  tokenizer = linear_of(pixels, width);
  table = positions ? parameters + count : 0, count += positions ? tokens * width : 0;
  for (int l = 0; l < depth; l++) {
    Block *b = blocks + l;
    b->norm1 = norm_of(rows);
    b->qkv = linear_of(width, 3 * width), b->projection = linear_of(width, width);
    b->norm2 = norm_of(rows);
    b->expand = linear_of(width, hidden), b->contract = linear_of(hidden, width);
    b->x = l ? blocks[l - 1].out : take(rows * width);
    b->projected = take(rows * 3 * width), b->weights = take(batch * heads * tokens * padded);
    b->mixed = take(rows * width), b->middle = take(rows * width), b->out = take(rows * width);
    b->u = take(rows * hidden), b->slope = take(rows * hidden), b->active = take(rows * hidden);
  }
  if (!post) final = norm_of(batch);
  classifier = linear_of(width, classes);
  cut = take(batch * patches * pixels), embedded = take(batch * patches * width);
  asker = take(batch * width), logits = take(batch * classes), dlogits = take(batch * classes);
  dx = take(rows * width), dy = take(rows * width), dh = take(rows * width);
  dqkv = take(rows * 3 * width), du = take(rows * hidden), dscores = take(tokens * padded);
  scratch = take(width * (3 * width + hidden + padded));
  return count;
}

EXPORT("parameters") float *parameters_at(void) { return parameters; }
EXPORT("gradients") float *gradients_at(void) { return gradients; }
EXPORT("moments") float *moments_at(void) { return moments; }
EXPORT("squares") float *squares_at(void) { return squares; }
EXPORT("weights") float *weights_at(int layer) { return blocks[layer].weights; }

// Logits of the first `images` of a batch. pixels: (images, side, side), between -1 and 1. order: which patch
// stands at which place, or null.
EXPORT("forward")
float *forward(const float *pixels, const int *order, int images) {
  const int grid = side / patch, rows = images * tokens;
  float *to = cut;
  for (int i = 0; i < images; i++, pixels += side * side)
    for (int t = 0; t < patches; t++) {
      const int from = order ? order[t] : t;
      for (int r = 0; r < patch; r++)
        for (int c = 0; c < patch; c++) *to++ = pixels[(from / grid * patch + r) * side + from % grid * patch + c];
    }
  linear(tokenizer, cut, embedded, images * patches);
  for (int i = 0; i < images; i++) {
    float *x = blocks[0].x + i * tokens * width;
    copy(prefix, x, width);
    copy(embedded + i * patches * width, x + width, patches * width);
    if (table) plus(x, table, x, tokens * width);
  }
  for (Block *b = blocks; b < blocks + depth; b++) {
    const int asking = asking_in(b), some = images * asking;
    const float *x = b->x;
    if (!post) norm(b->norm1, x, b->norm1.out, rows);
    const float *seen = post ? x : b->norm1.out;
    if (asking == tokens) {
      linear(b->qkv, seen, b->projected, rows);
    } else {
      linear(queries_of(b->qkv), seen, b->projected, images);
      linear(others_of(b->qkv), seen, b->projected + width, rows);
    }
    attend(b->projected, b->weights, b->mixed, images, asking);
    linear(b->projection, b->mixed, dy, some);
    if (asking < tokens) {
      for (int i = 0; i < images; i++) copy(x + i * tokens * width, asker + i * width, width);
      x = asker;
    }
    plus(x, dy, post ? dx : b->middle, some * width);
    if (post) norm(b->norm1, dx, b->middle, some);
    else norm(b->norm2, b->middle, b->norm2.out, some);
    linear(b->expand, post ? b->middle : b->norm2.out, b->u, some);
    gelu(b->u, b->slope, b->active, some * hidden);
    linear(b->contract, b->active, dy, some);
    plus(b->middle, dy, post ? dx : b->out, some * width);
    if (post) norm(b->norm2, dx, b->out, some);
  }
  const float *answer = blocks[depth - 1].out;
  if (!post) norm(final, answer, final.out, images);
  linear(classifier, post ? answer : final.out, logits, images);
  return logits;
}

// Mean cross-entropy of the last forward of a full batch; fills the gradients. twice: of the softmax of the logits,
// as if that were the logits.
EXPORT("backward")
double backward(const int *labels, double smoothing, int twice) {
  const int rows = batch * tokens;
  clear(gradients, count);
  const double loss = cross_entropy(labels, smoothing, twice);
  linear_back(classifier, post ? blocks[depth - 1].out : final.out, dlogits, dx, batch, 0);
  if (!post) norm_back(final, dx, dx, batch, 0);
  for (Block *b = blocks + depth - 1; b >= blocks; b--) {  // dx: the gradient of its output, then of its input
    const int asking = asking_in(b), some = batch * asking;
    if (post) norm_back(b->norm2, dx, dx, some, 0);
    linear_back(b->contract, b->active, dx, du, some, 0);
    for (int i = 0; i < some * hidden; i += 4) *(f4 *)(du + i) *= *(f4 *)(b->slope + i);
    linear_back(b->expand, post ? b->middle : b->norm2.out, du, dh, some, 0);
    if (post) {
      plus(dx, dh, dx, some * width);
      norm_back(b->norm1, dx, dx, some, 0);
    } else {
      norm_back(b->norm2, dh, dx, some, 1);
    }
    linear_back(b->projection, b->mixed, dx, dy, some, 0);
    attend_back(b->projected, b->weights, dy, dqkv, asking);
    const float *seen = post ? b->x : b->norm1.out;
    if (asking == tokens) {
      linear_back(b->qkv, seen, dqkv, dh, rows, 0);
    } else {
      linear_back(others_of(b->qkv), seen, dqkv + width, dh, rows, 0);
      linear_back(queries_of(b->qkv), seen, dqkv, dh, batch, 1);
    }
    for (int i = batch - 1; asking < tokens && i >= 0; i--) {  // back to the class tokens' places among all
      float *to = dx + i * tokens * width;
      __builtin_memmove(to, dx + i * width, 4u * width);
      clear(to + width, patches * width);
    }
    if (post) plus(dx, dh, dx, rows * width);
    else norm_back(b->norm1, dh, dx, rows, 1);
  }
  float *gp = gradient(prefix);
  for (int i = 0; i < batch; i++) {
    const float *g = dx + i * tokens * width;
    plus(gp, g, gp, width);
    if (table) plus(gradient(table), g, gradient(table), tokens * width);
    copy(g + width, dh + i * patches * width, patches * width);
  }
  linear_back(tokenizer, cut, dh, 0, batch * patches, 0);
  return loss;
}

// One step of AdamW (Loshchilov and Hutter 2019), the number of which is `step`, from 1. Weights of linear layers decay;
// biases, norms, positions and the class token do not.
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
  adamw(prefix, width, 1, scaled, root);
  float *next = tokenizer.weight;
  Linear decayed[2 + 4 * 12];
  int n = 0;
  decayed[n++] = tokenizer;
  for (Block *b = blocks; b < blocks + depth; b++) {
    decayed[n++] = b->qkv, decayed[n++] = b->projection;
    decayed[n++] = b->expand, decayed[n++] = b->contract;
  }
  decayed[n++] = classifier;
  for (int i = 0; i < n; i++) {  // what lies between two weights of linear layers does not decay
    adamw(next, decayed[i].weight - next, 1, scaled, root);
    adamw(decayed[i].weight, decayed[i].in * decayed[i].out, keep, scaled, root);
    next = decayed[i].bias;
  }
  adamw(next, parameters + count - next, 1, scaled, root);
}
