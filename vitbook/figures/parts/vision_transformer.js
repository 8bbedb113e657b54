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
export function layerNorm(x, rows, { weight, bias }) {
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

export const add = (a, b) => a.map((value, i) => value + b[i]);

/** Each head lets every query take a weighted mean of the values, by how alike it is to their keys. */
export function attend([queries, keys, values], heads, projection) {
  const width = projection.bias.length, size = width / heads;
  const rows = queries.length / width, others = keys.length / width;
  const mixed = new Float32Array(rows * width), maps = [];
  for (let head = 0; head < heads; head++) {
    const map = [], from = head * size;
    // One number of all values in a row, so that each mean is one pass.
    const turned = Float32Array.from({ length: size * others }, (_, i) =>
      values[(i % others) * width + from + Math.floor(i / others)]);
    for (let row = 0; row < rows; row++) {
      const at = row * width + from, scores = new Float64Array(others);
      for (let other = 0; other < others; other++) {
        scores[other] = dot(queries, at, keys, other * width + from, size) / Math.sqrt(size);
      }
      const weights = softmax(scores), shares = Float32Array.from(weights);
      for (let i = 0; i < size; i++) mixed[at + i] = dot(shares, 0, turned, i * others, others);
      map.push(weights);
    }
    maps.push(map);
  }
  return { output: linear(mixed, rows, projection), maps };
}

/** Attention among the tokens themselves, by the layers `attention` of a block. */
export function attention(x, rows, heads, block) {
  const { weight, bias } = block("attention.qkv"), width = bias.length / 3, count = weight.length / 3;
  const parts = [0, 1, 2].map((i) => linear(x, rows, {
    weight: weight.subarray(i * count, (i + 1) * count), bias: bias.subarray(i * width, (i + 1) * width),
  }));
  return attend(parts, heads, block("attention.projection"));
}

/** The two layers `mlp` of a block, on each token. */
export const mlp = (x, rows, block) =>
  linear(linear(x, rows, block("mlp.expand")).map(gelu), rows, block("mlp.contract"));

/** The image, channel by channel, cut into patches: one row of numbers each, 0 beyond its edges. */
function patchify(pixels, [height, width], [high, wide], [down, across]) {
  const patches = [], area = height * width, over = (high - down) / 2, beside = (wide - across) / 2;
  for (let top = -over; top < height - over; top += down) {
    for (let left = -beside; left < width - beside; left += across) {
      for (let channel = 0; channel < pixels.length; channel += area) {
        for (let row = top; row < top + high; row++) {
          for (let column = left; column < left + wide; column++) {
            const inside = row >= 0 && row < height && column >= 0 && column < width;
            patches.push(inside ? (pixels[channel + row * width + column] / 255 - 0.5) / 0.5 : 0);
          }
        }
      }
    }
  }
  return Float32Array.from(patches);
}

/**
 * Pixels 0..255 to the tokens after the last norm, prefix first, and the attention maps
 * [layer][head][query][key]. In the place of the patches in `masked` the model sees its [mask].
 */
export function encode(pixels, model, masked = []) {
  const { size, patch, step, heads, depth, parts } = model, prefix = parts("prefix");
  const count = (size[0] / step[0]) * (size[1] / step[1]);
  const patches = linear(patchify(pixels, size, patch, step), count, parts("tokenizer.projection"));
  const width = patches.length / count, rows = count + prefix.length / width;
  for (const each of masked) patches.set(parts("mask"), each * width);
  let x = add(Float32Array.from([...prefix, ...patches]), parts("position.table"));
  const maps = [];
  for (let i = 0; i < depth; i++) {
    const block = (name) => parts(`encoder.blocks.${i}.${name}`);
    const looked = attention(layerNorm(x, rows, block("norm1")), rows, heads, block);
    x = add(x, looked.output);
    x = add(x, mlp(layerNorm(x, rows, block("norm2")), rows, block));
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

/**
 * The weights by name, with what else `encode` asks for; `step` is from patch to patch, where they overlap.
 * `parts("encoder.norm")` is {weight, bias}, `parts("prefix")` a table.
 */
export function load(data, raw = bytes(data.values)) {
  const stored = new Uint16Array(raw.buffer), tables = {};
  let from = 0;
  for (const [name, shape] of data.weights) {
    const count = shape.reduce((a, b) => a * b, 1);
    tables[name] = Float32Array.from(stored.subarray(from, from += count), half);
  }
  const parts = (name) =>
    tables[name] ?? { weight: tables[`${name}.weight`], bias: tables[`${name}.bias`] };
  return { size: data.size, patch: data.patch, step: data.step ?? data.patch, heads: data.heads, depth: data.depth, parts };
}
