/** Names and shapes of what a model is, in the order in which it lies: the library's `state_dict`. */
export function layout({ kind, width, depth, hidden, patch, side, classes, positions, post }) {
  const tokens = (side / patch) ** 2 + 1, shapes = [];
  const add = (name, ...shape) => shapes.push([name, shape]);
  const both = (name, ...shape) => (add(`${name}.weight`, ...shape), add(`${name}.bias`, shape[0]));
  if (kind === "resnet") {
    const norm = (name, channels) => {
      both(name, channels);
      add(`${name}.running_mean`, channels);
      add(`${name}.running_var`, channels);
      add(`${name}.num_batches_tracked`);
    };
    add("stem.weight", 16, 1, 3, 3);
    norm("norm", 16);
    [[16, 16], [16, 32], [32, 64]].forEach(([before, channels], i) => {
      add(`stages.${i}.conv1.weight`, channels, before, 3, 3);
      norm(`stages.${i}.norm1`, channels);
      add(`stages.${i}.conv2.weight`, channels, channels, 3, 3);
      norm(`stages.${i}.norm2`, channels);
    });
    both("head.classifier", classes, 64);
    return shapes;
  }
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

/** How many numbers a model has; what its norms remember counts, too. */
export const countOf = (settings) => layout(settings).reduce((sum, [, shape]) => sum + sizeOf(shape), 0);
