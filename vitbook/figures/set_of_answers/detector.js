import { softmax } from "../parts/numbers.js";
import { add, attend, attention, encode, layerNorm, linear, mlp } from "../parts/vision_transformer.js";

const relu = (number) => Math.max(number, 0);
const sigmoid = (number) => 1 / (1 + Math.exp(-number));

/** A matrix as a list of its rows. */
const rowsOf = (matrix, rows) => Array.from({ length: rows }, (_, i) =>
  matrix.subarray(i * matrix.length / rows, (i + 1) * matrix.length / rows));

/**
 * What each query says of an image: chances of the classes and then of no object, a box (centre x,
 * centre y, width and height in shares of the image), and its attention to the image's tokens in the
 * last block, mean of the heads.
 */
export function detect(pixels, model) {
  const { heads, parts } = model, { tokens } = encode(pixels, model);
  const width = parts("decoder.norm").bias.length, count = tokens.length / width;
  let x = parts("queries"), maps;
  const rows = x.length / width;
  for (let i = 0; parts(`decoder.blocks.${i}.norm1`).bias; i++) {
    const block = (name) => parts(`decoder.blocks.${i}.${name}`);
    x = add(x, attention(layerNorm(x, rows, block("norm1")), rows, heads, block).output);
    const cross = (name) => block(`cross_attention.${name}`);
    const looked = attend([linear(layerNorm(x, rows, block("norm2")), rows, cross("to_queries")),
      linear(tokens, count, cross("to_keys")), linear(tokens, count, cross("to_values"))],
    heads, cross("projection"));
    x = add(x, looked.output);
    x = add(x, mlp(layerNorm(x, rows, block("norm3")), rows, block));
    ({ maps } = looked);
  }
  x = layerNorm(x, rows, parts("decoder.norm"));
  const box = (name) => parts(`box_head.layers.${name}`);
  const hidden = linear(linear(x, rows, box(0)).map(relu), rows, box(2)).map(relu);
  return {
    chances: rowsOf(linear(x, rows, parts("class_head")), rows).map((logits) => softmax(logits)),
    boxes: rowsOf(linear(hidden, rows, box(4)), rows).map((four) => [...four].map(sigmoid)),
    looks: maps[0].map((_, query) => maps[0][query].map((_, token) =>
      maps.reduce((sum, map) => sum + map[query][token], 0) / heads)),
  };
}
