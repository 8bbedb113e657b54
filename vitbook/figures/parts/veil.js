import { clamp } from "./numbers.js";

const DARKEST = 0.86; // as in veil.py

/** The colour of a veil over a photograph: the less the share, 0 to 1, the darker. */
export const veilAt = (share) => [0, 0, 0, Math.round(255 * DARKEST * (1 - clamp(share, 0, 1)))];

/** How bright a cosine is, 0 to 1: dark up to `floor`. */
export const brightness = (cosine, floor) => clamp((cosine - floor) / (1 - floor), 0, 1);

/** The means of a map over its patches; both by how many there are, down and across. */
export function patchMeans(map, [height, width], [rows, columns]) {
  const means = new Float64Array(rows * columns), pixels = height * width / rows / columns;
  map.forEach((value, i) => {
    const row = Math.floor(Math.floor(i / width) * rows / height), column = Math.floor(i % width * columns / width);
    means[row * columns + column] += value / pixels;
  });
  return means;
}
