import { sizeOf } from "./layout.js";

/** Uniform numbers from 0 up to 1, the same for the same seed (mulberry32), or from a state on; and what is made of them. */
export function chanceOf(seed, state = Math.imul(seed + 1, 0x9e3779b9) >>> 0) {
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const shuffled = (count) => {
    const order = Int32Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = Math.floor(uniform() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  };
  return { uniform, normal, shuffled, now: () => state };
}

/** First weights, as the library draws them: not the same numbers, the same laws. */
export function firstOf(shapes, seed) {
  const { normal } = chanceOf(seed), values = [];
  const within = () => {
    for (;;) {
      const z = normal();
      if (Math.abs(z) <= 2) return z;
    }
  };
  for (const [name, shape] of shapes) {
    const [outputs] = shape, pixels = shape.at(-1) ** 2;
    const draw = /norm\d?\.weight$|running_var$/.test(name) ? () => 1
      : /bias$|^prefix$|running_mean$|num_batches_tracked$/.test(name) ? () => 0
        : /conv\d\.weight$|^stem/.test(name) ? () => normal() * Math.sqrt(2 / (outputs * pixels)) // He et al. 2015, by outputs
          : name === "tokenizer.projection.weight" ? () => normal() / Math.sqrt(pixels)
            : name === "position.table" ? () => 0.02 * normal() : () => 0.02 * within();
    for (let i = 0; i < sizeOf(shape); i++) values.push(draw());
  }
  return Float32Array.from(values);
}

/** Images turned, scaled and moved a little, each in its own way: black outside, linear between pixels. */
export function varied(images, side, { uniform }) {
  const out = new Float32Array(images.length), middle = (side - 1) / 2, within = (most) => most * (2 * uniform() - 1);
  for (let from = 0; from < images.length; from += side * side) {
    const angle = within(Math.PI / 18), zoom = 1 + within(0.1), [down, right] = [within(0.5), within(0.5)];
    const [cos, sin] = [Math.cos(angle) / zoom, Math.sin(angle) / zoom];
    for (let i = 0; i < side * side; i++) {
      const r = Math.floor(i / side) - middle - down, c = i % side - middle - right;
      const y = cos * r - sin * c + middle, x = sin * r + cos * c + middle;
      const top = Math.floor(y), left = Math.floor(x);
      let ink = 0;
      for (const [row, share] of [[top, top + 1 - y], [top + 1, y - top]]) {
        for (const [column, part] of [[left, left + 1 - x], [left + 1, x - left]]) {
          if (row < 0 || column < 0 || row >= side || column >= side) continue;
          ink += share * part * (images[from + row * side + column] + 1);
        }
      }
      out[from + i] = ink - 1;
    }
  }
  return out;
}
