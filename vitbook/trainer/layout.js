/** Names and shapes of a model's parameters, in the order in which they lie: the library's `state_dict`. */
export function layout({ width, depth, hidden, patch, side, classes, positions, post }) {
  const tokens = (side / patch) ** 2 + 1, shapes = [];
  const add = (name, ...shape) => shapes.push([name, shape]);
  const both = (name, ...shape) => (add(`${name}.weight`, ...shape), add(`${name}.bias`, shape[0]));
  add("prefix", 1, width);
  both("tokenizer.projection", width, 1, patch, patch);
  if (positions) add("position.table", tokens, width);
  for (let i = 0; i < depth; i++) {
    const block = `encoder.blocks.${i}`;
    both(`${block}.norm1`, width);
    both(`${block}.attention.qkv`, 3 * width, width);
    both(`${block}.attention.projection`, width, width);
    both(`${block}.norm2`, width);
    both(`${block}.mlp.expand`, hidden, width);
    both(`${block}.mlp.contract`, width, hidden);
  }
  if (!post) both("encoder.norm", width);
  both("head.classifier", classes, width);
  return shapes;
}

/** How many numbers a shape holds. */
export const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);

/** How many numbers a model has. */
export const countOf = (settings) => layout(settings).reduce((sum, [, shape]) => sum + sizeOf(shape), 0);
