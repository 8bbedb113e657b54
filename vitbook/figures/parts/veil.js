import { clamp } from "./numbers.js";

const DARKEST = 0.86; // as in veil.py

/** The colour of a veil over a photograph: the less the share, 0 to 1, the darker. */
export const veilAt = (share) => [0, 0, 0, Math.round(255 * DARKEST * (1 - clamp(share, 0, 1)))];

/** How bright a cosine is, 0 to 1: dark up to `floor`. */
export const brightness = (cosine, floor) => clamp((cosine - floor) / (1 - floor), 0, 1);

/** The means of a square map over its patches. */
export function patchMeans(map, side, columns) {
  const patch = side / columns, means = new Float64Array(columns * columns);
  map.forEach((value, i) => {
    const row = Math.floor(i / side / patch), column = Math.floor((i % side) / patch);
    means[row * columns + column] += value / patch ** 2;
  });
  return means;
}
