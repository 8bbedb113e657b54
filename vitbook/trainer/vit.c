// A Vision Transformer that learns. It is the library's `vit` of one channel with a class token (Dosovitskiy et al. 2021,
// equations 1 to 4), or with its norms behind the branches.

#include "learning.h"

static const float EPS = 1e-6f;
static int width, depth, heads, hidden, patch, side, patches, tokens, padded, post;

// ---------------------------------------------------------------------------------- layers
typedef struct {
  float *weight, *bias, *hat, *rate, *out;  // rate: 1 / standard deviation, of each token
} Norm;

static Norm norm_of(int rows) {
  float *weight = parameter(width);
  return (Norm){weight, parameter(width), take(rows * width), take(rows), take(rows * width)};
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

__attribute__((always_inline)) static f4 exponential(f4 x) {  // relative error below 2e-7, from 2^n and a polynomial on half of ln 2
  x = larger(x, (f4){-87, -87, -87, -87});
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

// Where its parameters lie, which are so many.
EXPORT("create")
float *create(int parameters_, int batch_, int classes_, int width_, int depth_, int heads_, int hidden_, int patch_, int side_,
              int positions, int post_) {
  batch = batch_, classes = classes_, width = width_, depth = depth_, heads = heads_, hidden = hidden_, patch = patch_;
  side = side_, post = post_;
  patches = (side / patch) * (side / patch), tokens = patches + 1, padded = (tokens + 3) & ~3;
  const int rows = batch * tokens, pixels = patch * patch;
  begin(parameters_);
  prefix = parameter(width);
  tokenizer = linear_of(pixels, width);
  table = positions ? parameter(tokens * width) : 0;
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
  return parameters;
}

EXPORT("weights") float *weights_at(int layer) { return blocks[layer].weights; }

// Logits of the first `images` of a batch. pixels: (images, side, side), between -1 and 1.
EXPORT("forward")
float *forward(const float *pixels, int images) {
  const int grid = side / patch, rows = images * tokens;
  float *to = cut;
  for (int i = 0; i < images; i++, pixels += side * side)
    for (int t = 0; t < patches; t++)
      for (int r = 0; r < patch; r++)
        for (int c = 0; c < patch; c++) *to++ = pixels[(t / grid * patch + r) * side + t % grid * patch + c];
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

// Mean cross-entropy of the last forward of a full batch; fills the gradients.
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
