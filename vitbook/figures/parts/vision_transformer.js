import { bytes, softmax } from "./numbers.js";

// A Vision Transformer's forward pass, from pixels to tokens.
// A matrix is a Float32Array, one row of numbers for each token.

/** The product of `count` numbers of each; four sums at once, since an addition waits for the last. */
function dot(a, from, b, at, count) {
  let first = 0, second = 0, third = 0, fourth = 0, i = 0;
  for (; i + 3 < count; i += 4) {
    first += a[from + i] * b[at + i];
    second += a[from + i + 1] * b[at + i + 1];
    third += a[from + i + 2] * b[at + i + 2];
    fourth += a[from + i + 3] * b[at + i + 3];
  }
  for (; i < count; i++) first += a[from + i] * b[at + i];
  return first + second + third + fourth;
}

/** y = x W' + b for each of `rows` tokens; W is "outputs inputs", as in PyTorch. */
export function linear(x, rows, { weight, bias }) {
  const outputs = bias.length, inputs = weight.length / outputs;
  const y = new Float32Array(rows * outputs);
  for (let r = 0; r < rows; r++) {
    for (let o = 0; o < outputs; o++) {
      y[r * outputs + o] = bias[o] + dot(x, r * inputs, weight, o * inputs, inputs);
    }
  }
  return y;
}

/** Every token to mean 0 and variance 1, then scaled and shifted. */
function layerNorm(x, rows, { weight, bias }) {
  const width = weight.length, y = new Float32Array(x.length);
  for (let r = 0; r < rows; r++) {
    const token = x.subarray(r * width, (r + 1) * width);
    const mean = token.reduce((a, b) => a + b, 0) / width;
    const variance = token.reduce((a, b) => a + (b - mean) ** 2, 0) / width;
    const scale = 1 / Math.sqrt(variance + 1e-6);
    for (let i = 0; i < width; i++) y[r * width + i] = (token[i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

/** x times the probability that a normal variable is below x (erf by Abramowitz and Stegun 7.1.26). */
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 +
    t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
  return x * (x < 0 ? tail / 2 : 1 - tail / 2);
}

const add = (a, b) => a.map((value, i) => value + b[i]);

/** Each head lets every token take a weighted mean of the values of all tokens. */
function attention(x, rows, heads, parts) {
  const qkv = linear(x, rows, parts.qkv);
  const width = qkv.length / rows / 3, size = width / heads;
  const at = (row, which, head) => row * 3 * width + which * width + head * size;
  const mixed = new Float32Array(rows * width), maps = [];
  for (let head = 0; head < heads; head++) {
    const map = [];
    // One number of all values in a row, so that each mean is one pass.
    const values = Float32Array.from({ length: size * rows }, (_, i) =>
      qkv[at(i % rows, 2, head) + Math.floor(i / rows)]);
    for (let row = 0; row < rows; row++) {
      const query = at(row, 0, head), to = row * width + head * size;
      const scores = new Float64Array(rows);
      for (let other = 0; other < rows; other++) {
        scores[other] = dot(qkv, query, qkv, at(other, 1, head), size) / Math.sqrt(size);
      }
      const weights = softmax(scores), shares = Float32Array.from(weights);
      for (let i = 0; i < size; i++) mixed[to + i] = dot(shares, 0, values, i * rows, rows);
      map.push(weights);
    }
    maps.push(map);
  }
  return { output: linear(mixed, rows, parts.projection), maps };
}

/** The image, channel by channel, cut into patches: one row of numbers each. */
function patchify(pixels, [height, width], [high, wide]) {
  const patches = [], area = height * width;
  for (let top = 0; top < height; top += high) {
    for (let left = 0; left < width; left += wide) {
      for (let channel = 0; channel < pixels.length; channel += area) {
        for (let r = 0; r < high; r++) {
          for (let c = 0; c < wide; c++) patches.push(pixels[channel + (top + r) * width + left + c]);
        }
      }
    }
  }
  return Float32Array.from(patches, (pixel) => (pixel / 255 - 0.5) / 0.5);
}

/**
 * Pixels 0..255 to the tokens after the last norm, prefix first, and the attention maps
 * [layer][head][query][key]. In the place of the patches in `masked` the model sees its [mask].
 */
export function encode(pixels, model, masked = []) {
  const { size, patch, heads, depth, parts } = model, prefix = parts("prefix");
  const count = (size[0] / patch[0]) * (size[1] / patch[1]);
  const patches = linear(patchify(pixels, size, patch), count, parts("tokenizer.projection"));
  const width = patches.length / count, rows = count + prefix.length / width;
  for (const each of masked) patches.set(parts("mask"), each * width);
  let x = add(Float32Array.from([...prefix, ...patches]), parts("position.table"));
  const maps = [];
  for (let i = 0; i < depth; i++) {
    const block = (name) => parts(`encoder.blocks.${i}.${name}`);
    const looked = attention(layerNorm(x, rows, block("norm1")), rows, heads,
      { qkv: block("attention.qkv"), projection: block("attention.projection") });
    x = add(x, looked.output);
    const hidden = linear(layerNorm(x, rows, block("norm2")), rows, block("mlp.expand")).map(gelu);
    x = add(x, linear(hidden, rows, block("mlp.contract")));
    maps.push(looked.maps);
  }
  return { tokens: layerNorm(x, rows, parts("encoder.norm")), maps };
}

/** Pixels 0..255 to logits, by the class token, and the attention maps. */
export function read(pixels, model) {
  const { tokens, maps } = encode(pixels, model);
  return { logits: linear(tokens, 1, model.parts("head.classifier")), maps };
}

/** A half-precision number from its sixteen bits. */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** The weights by name: `parts("encoder.norm")` is {weight, bias}, `parts("prefix")` a table. */
export function load(data, raw = bytes(data.values)) {
  const stored = new Uint16Array(raw.buffer), tables = {};
  let from = 0;
  for (const [name, shape] of data.weights) {
    const count = shape.reduce((a, b) => a * b, 1);
    tables[name] = Float32Array.from(stored.subarray(from, from += count), half);
  }
  const parts = (name) =>
    tables[name] ?? { weight: tables[`${name}.weight`], bias: tables[`${name}.bias`] };
  return { size: data.size, patch: data.patch, heads: data.heads, depth: data.depth, parts };
}
