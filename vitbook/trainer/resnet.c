// A ResNet-8 that learns: the library's `resnet8_digits` (He et al. 2016, section 4.2), for square images of one channel.
//
// Maps lie as (images, rows, columns, channels). What BatchNorm remembers lies among the parameters, as in the
// library's `state_dict`; its gradient stays 0, and so AdamW leaves it as it is.

#include "learning.h"

static const float EPS = 1e-5f, MOMENTUM = 0.1f;
static int side;

// ---------------------------------------------------------------------------------- convolutions
typedef struct {
  float *weight;  // (out, in, 3, 3)
  int in, out, side, stride;  // side: of the map that comes
} Conv;

static float *windows, *kernel, *turned;

static Conv conv_of(int in, int out, int side, int stride) {
  return (Conv){matrix(in * out * 9), in, out, side, stride};
}

// How many of the images make some 64 rows of windows: what fits into the nearer caches.
static int few(Conv c, int images) {
  const int side = c.side / c.stride, some = (63 + side * side) / (side * side);
  return some < images ? some : images;
}

// The windows of 3 x 3 around each pixel of a map, a row each, with zeros outside; or back, added to the map.
APART static void slide(Conv c, float *map, int images, int back) {
  const int to = c.side / c.stride, run = 3 * c.in;
  float *row = windows;
  for (int i = 0; i < images; i++, map += c.side * c.side * c.in)
    for (int y = 0; y < to; y++)
      for (int x = 0; x < to; x++)
        for (int k = y * c.stride - 1, last = k + 3; k < last; k++, row += run) {
          const int left = x * c.stride - 1, inside = k >= 0 && k < c.side;
          const int from = left < 0 ? c.in : 0, until = !inside ? from : left + 3 > c.side ? 2 * c.in : run;
          float *at = map + (k * c.side + left) * c.in;
          if (back) {
            for (int j = from; j < until; j++) at[j] += row[j];
          } else {
            for (int j = 0; j < from; j++) row[j] = 0;
            for (int j = from; j < until; j++) row[j] = at[j];
            for (int j = until; j < run; j++) row[j] = 0;
          }
        }
}

// The kernels with (3, 3, in) together and `across` from one output to the next, so that a window lies like a kernel; or a
// gradient that lies so, added to that of the kernels.
APART static void unfold(Conv c, float *weight, float *to, int across, int down, int back) {
  for (int i = 0; i < c.in; i++)
    for (int k = 0; k < 9; k++)
      for (int o = 0; o < c.out; o++) {
        float *w = weight + (o * c.in + i) * 9 + k, *v = to + o * across + (k * c.in + i) * down;
        if (back) *w += *v;
        else *v = *w;
      }
}

APART static void conv(Conv c, float *x, float *y, int images) {
  const int pixels = c.side * c.side, places = pixels / c.stride / c.stride;
  unfold(c, c.weight, kernel, 1, c.out, 0);
  for (int i = 0, some; i < images; i += some) {
    some = few(c, images - i);
    slide(c, x + i * pixels * c.in, some, 0);
    product(windows, 9 * c.in, 1, kernel, c.out, y + i * places * c.out, c.out, some * places, 9 * c.in, c.out, 0, 0);
  }
}

// Adds to the gradient of the kernels, and to that of x unless it is null.
APART static void conv_back(Conv c, float *x, const float *gy, float *gx) {
  const int pixels = c.side * c.side, places = pixels / c.stride / c.stride, inner = 9 * c.in;
  if (gx) unfold(c, c.weight, scratch, inner, 1, 0);
  clear(kernel, inner * c.out);
  for (int i = 0, some; i < batch; i += some) {
    some = few(c, batch - i);
    const float *g = gy + i * places * c.out;
    slide(c, x + i * pixels * c.in, some, 0);
    product(windows, 1, inner, g, c.out, kernel, c.out, inner, some * places, c.out, kernel, c.out);
    if (!gx) continue;
    product(g, c.out, 1, scratch, inner, windows, inner, some * places, c.out, inner, 0, 0);
    slide(c, gx + i * pixels * c.in, some, 1);
  }
  unfold(c, gradient(c.weight), kernel, 1, c.out, 1);
}

// ---------------------------------------------------------------------------------- BatchNorm
typedef struct {
  float *weight, *bias, *mean, *variance, *batches;  // what it learns, and what it remembers
  float *hat, *rate;                                 // rate: 1 / standard deviation, of each channel
  int channels;
} Norm;

static Norm norm_of(int channels, int rows) {
  float *at = parameter(4 * channels + 1);
  return (Norm){at, at + channels, at + 2 * channels, at + 3 * channels, at + 4 * channels, take(rows * channels), take(channels), channels};
}

// y = ReLU(norm(x) + what is added, if it is not null). training: by the mean and the variance of these rows.
APART static void norm(Norm l, const float *x, const float *added, float *y, int rows, int training) {
  const int n = l.channels;
  if (training) *l.batches += 1;
  for (int c = 0; c < n; c += 4) {
    f4 mean = *(f4 *)(l.mean + c), variance = *(f4 *)(l.variance + c);
    if (training) {
      f4 total = {0, 0, 0, 0}, square = {0, 0, 0, 0};
      for (int i = c; i < rows * n; i += n) total += *(const f4 *)(x + i);
      mean = total / (float)rows;
      for (int i = c; i < rows * n; i += n) {
        const f4 d = *(const f4 *)(x + i) - mean;
        square += d * d;
      }
      variance = square / (float)rows;
      *(f4 *)(l.mean + c) += MOMENTUM * (mean - *(f4 *)(l.mean + c));
      *(f4 *)(l.variance + c) += MOMENTUM * (square / (float)(rows - 1) - *(f4 *)(l.variance + c));
    }
    f4 rate;
    for (int i = 0; i < 4; i++) rate[i] = 1 / __builtin_sqrtf(variance[i] + EPS);
    *(f4 *)(l.rate + c) = rate;
    const f4 weight = *(f4 *)(l.weight + c), bias = *(f4 *)(l.bias + c);
    for (int i = c; i < rows * n; i += n) {
      const f4 hat = (*(const f4 *)(x + i) - mean) * rate;
      *(f4 *)(l.hat + i) = hat;
      f4 out = hat * weight + bias;
      if (added) out += *(const f4 *)(added + i);
      *(f4 *)(y + i) = larger(out, (f4){0, 0, 0, 0});
    }
  }
}

// From the gradient of y, which becomes that of what ReLU took, to that of x; adds to those of weight and bias.
APART static void norm_back(Norm l, const float *y, float *gy, float *gx, int rows) {
  const int n = l.channels;
  for (int c = 0; c < n; c += 4) {
    f4 first = {0, 0, 0, 0}, second = {0, 0, 0, 0};
    for (int i = c; i < rows * n; i += n) {
      const f4 g = (f4)((i4)(*(f4 *)(gy + i)) & (*(const f4 *)(y + i) > 0));
      *(f4 *)(gy + i) = g;
      first += g;
      second += g * *(f4 *)(l.hat + i);
    }
    *(f4 *)(gradient(l.bias) + c) += first;
    *(f4 *)(gradient(l.weight) + c) += second;
    const f4 rate = *(f4 *)(l.weight + c) * *(f4 *)(l.rate + c), one = first / (float)rows, two = second / (float)rows;
    for (int i = c; i < rows * n; i += n) *(f4 *)(gx + i) = rate * (*(f4 *)(gy + i) - one - *(f4 *)(l.hat + i) * two);
  }
}

// ---------------------------------------------------------------------------------- the model
typedef struct {
  Conv conv1, conv2;
  Norm norm1, norm2;
  float *x, *middle, *added, *out;  // added: what comes by the shortcut
} Block;

enum { BLOCKS = 3, WIDTH = 16 };
static Block blocks[BLOCKS];
static Conv stem;
static Norm first;
static Linear classifier;
static float *images;  // of the last forward, where they lie
static float *pooled, *dpooled, *raw, *dx, *dy;

// Where its parameters lie, which are so many.
EXPORT("create")
float *create(int parameters_, int batch_, int classes_, int side_) {
  batch = batch_, classes = classes_, side = side_;
  const int most = batch * side * side * WIDTH;
  begin(parameters_);
  stem = conv_of(1, WIDTH, side, 1), first = norm_of(WIDTH, batch * side * side);
  float *x = take(most);
  int in = WIDTH, map = side, out = WIDTH;
  for (Block *b = blocks; b < blocks + BLOCKS; b++) {
    const int stride = out / in, rows = batch * map * map / stride / stride;
    b->conv1 = conv_of(in, out, map, stride), b->norm1 = norm_of(out, rows);
    map /= stride;
    b->conv2 = conv_of(out, out, map, 1), b->norm2 = norm_of(out, rows);
    b->x = x, b->middle = take(rows * out), b->added = stride > 1 ? take(rows * out) : x, b->out = x = take(rows * out);
    in = out, out *= 2;
  }
  classifier = linear_of(in, classes);
  pooled = take(batch * in), dpooled = take(batch * in), logits = take(batch * classes), dlogits = take(batch * classes);
  raw = take(most), dx = take(most), dy = take(most);
  kernel = take(9 * in * in), scratch = take(9 * in * in), windows = take(9 * in * (63 + side * side));
  return parameters;
}

// The shortcut of a block whose map shrinks: every second pixel, between channels of zeros; or back.
APART static void shortcut(const Block *b, float *x, float *added, int some, int back) {
  const Conv c = b->conv1;
  const int to = c.side / 2, pad = (c.out - c.in) / 2;
  for (int i = 0; i < some; i++)
    for (int y = 0; y < to; y++)
      for (int z = 0; z < to; z++) {
        float *far = x + ((i * c.side + 2 * y) * c.side + 2 * z) * c.in, *near = added + ((i * to + y) * to + z) * c.out + pad;
        for (int j = 0; j < c.in; j++) {
          if (back) far[j] = near[j];
          else near[j] = far[j];
        }
      }
}

static int places(Conv c) { return c.side * c.side / c.stride / c.stride; }

// Logits of the first `some` images of a batch, in training or in evaluation. pixels: (images, side, side), between -1 and 1.
EXPORT("forward")
float *forward(float *pixels, int some, int training) {
  images = pixels;
  conv(stem, images, raw, some);
  norm(first, raw, 0, blocks[0].x, some * places(stem), training);
  for (Block *b = blocks; b < blocks + BLOCKS; b++) {
    const int rows = some * places(b->conv1);
    conv(b->conv1, b->x, raw, some);
    norm(b->norm1, raw, 0, b->middle, rows, training);
    conv(b->conv2, b->middle, raw, some);
    if (b->added != b->x) shortcut(b, b->x, b->added, some, 0);
    norm(b->norm2, raw, b->added, b->out, rows, training);
  }
  const Block *last = blocks + BLOCKS - 1;
  const int at = places(last->conv1), n = classifier.in;
  clear(pooled, some * n);
  for (int i = 0; i < some; i++) {
    float *p = pooled + i * n;
    for (int j = 0; j < at; j++) plus(p, last->out + (i * at + j) * n, p, n);
    for (int j = 0; j < n; j++) p[j] /= at;
  }
  linear(classifier, pooled, logits, some);
  return logits;
}

// Mean cross-entropy of the last forward in training, of a full batch; fills the gradients.
EXPORT("backward")
double backward(const int *labels, double smoothing, int twice) {
  clear(gradients, count);
  const double loss = cross_entropy(labels, smoothing, twice);
  linear_back(classifier, pooled, dlogits, dpooled, batch, 0);
  const int at = places(blocks[BLOCKS - 1].conv1), n = classifier.in;
  for (int i = 0; i < batch * at; i++)
    for (int j = 0; j < n; j++) dx[i * n + j] = dpooled[i / at * n + j] / at;
  for (Block *b = blocks + BLOCKS - 1; b >= blocks; b--) {  // dx: the gradient of its output, then of its input
    const int rows = batch * places(b->conv1);
    norm_back(b->norm2, b->out, dx, raw, rows);
    clear(dy, rows * b->conv1.out);
    conv_back(b->conv2, b->middle, raw, dy);
    norm_back(b->norm1, b->middle, dy, raw, rows);
    if (b->added != b->x) {
      copy(dx, dy, rows * b->conv1.out);
      clear(dx, batch * b->conv1.side * b->conv1.side * b->conv1.in);
      shortcut(b, dx, dy, batch, 1);
    }
    conv_back(b->conv1, b->x, raw, dx);
  }
  norm_back(first, blocks[0].x, dx, raw, batch * places(stem));
  conv_back(stem, images, raw, 0);
  return loss;
}
