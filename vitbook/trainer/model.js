import { countOf } from "./layout.js";

/**
 * A model in a heap of its own: its forward, backward and AdamW, as they were compiled. `wasm` are the bytes of its kind;
 * a batch is what it takes at most at once, and just as much in training.
 */
export function modelOf(settings) {
  const { wasm, kind, batch, width, depth, heads, hidden, patch, side, classes, positions, post } = settings;
  if (width % 4) throw new Error(`a width of ${width} came, expected a multiple of 4`);
  const count = countOf(settings), pixels = side * side, tokens = (side / patch) ** 2 + 1;
  const made = new WebAssembly.Instance(new WebAssembly.Module(wasm), { env: { log: Math.log, exp: Math.exp } });
  const model = made.exports, memory = model.memory;
  let parameters;
  try {
    parameters = kind === "resnet" ? model.create(count, batch, classes, side)
      : model.create(count, batch, classes, width, depth, heads, hidden, patch, side, positions ? 1 : 0, post ? 1 : 0);
  } catch {
    throw new Error("there is not enough memory for this model");
  }
  // Behind the heap: a batch of images, and its labels.
  const images = memory.grow(Math.ceil(4 * batch * (pixels + 1) / 65536)) * 65536, labels = images + 4 * batch * pixels;
  const numbers = (at, length) => new Float32Array(memory.buffer, at, length);
  const like = (which) => numbers(parameters + which * 4 * ((count + 3) & ~3), count); // each begins at a multiple of four
  return {
    count, parameters: () => like(0), gradients: () => like(1), moments: () => [like(2), like(3)],
    /** Logits of images, each a row of numbers from -1 to 1; in training a ResNet's norms are by this batch. */
    forward(shown, training = false) {
      numbers(images, batch * pixels).set(shown);
      return numbers(model.forward(images, shown.length / pixels, training ? 1 : 0), shown.length / pixels * classes);
    },
    /** The loss of the last forward, in training; `twice` takes the softmax of the logits for logits, a fault. */
    backward(answers, smoothing, twice = false) {
      new Int32Array(memory.buffer, labels, batch).set(answers);
      return model.backward(labels, smoothing, twice ? 1 : 0);
    },
    update: model.update,
    /** Weights of an image of the last forward, by layer, heads x tokens, of the class token; of a ResNet no layer has any. */
    looks(image) {
      const padded = (tokens + 3) & ~3;
      return Array.from({ length: model.weights ? depth : 0 }, (_, layer) => {
        const at = model.weights(layer), asking = layer === depth - 1 ? 1 : tokens; // in the last the class token alone asks
        return Array.from({ length: heads }, (_, head) => numbers(at + 4 * (image * heads + head) * asking * padded, tokens).slice());
      });
    },
  };
}

/** Images whose patches stand in another order: at each place that which it says. */
export function arranged(images, { side, patch }, order) {
  const grid = side / patch;
  return images.map((_, i) => {
    const from = Math.floor(i / (side * side)) * side * side, row = Math.floor(i / side) % side, column = i % side;
    const place = order[Math.floor(row / patch) * grid + Math.floor(column / patch)];
    return images[from + (Math.floor(place / grid) * patch + row % patch) * side + place % grid * patch + column % patch];
  });
}
