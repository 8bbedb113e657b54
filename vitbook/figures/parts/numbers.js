/** Base64 to bytes. */
export const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A stored weight: its byte counts along the square root, so that small weights are finer. */
export const weightOf = (byte, scale) => scale * (byte / 255) ** 2;

/** Scores to weights with sum 1; a score of -Infinity gets none. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = Array(scores.length);
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += powers[i] = Math.exp(scores[i] - top);
  return powers.map((power) => power / sum);
}

/** The first place of the largest. */
export const argmax = (values) => values.indexOf(Math.max(...values));

/** Counted row by row: the row and the column of a cell, from 0, and in words, from 1. */
export const place = (cell, columns) => [Math.floor(cell / columns), cell % columns];
export const inWords = (cell, columns) => {
  const [row, column] = place(cell, columns);
  return `row ${row + 1}, column ${column + 1}`;
};

/** A rounded number with a real minus sign, and none before a zero. */
export const signed = (number, digits = 2) => {
  const text = number.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
};

/** A share as it is told: `34.2 %`, or `< 0.1 %`. */
export function shareTold(share) {
  const tenths = Math.floor(1000 * share + 0.5);
  return tenths ? `${(tenths / 10).toFixed(1)} %` : "< 0.1 %";
}

/** Where an event happened in a box: 0 to 1 from its left, and from its top. */
export const inside = ({ clientX, clientY }, { left, top, width, height }) =>
  [(clientX - left) / width, (clientY - top) / height];

export const clamp = (number, low, high) => Math.max(low, Math.min(high, number));

/** Cells on the way from one to another, both included. */
export function way(from, to) {
  const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
  return Array.from({ length: steps + 1 }, (_, i) =>
    [0, 1].map((axis) => Math.round(from[axis] + (to[axis] - from[axis]) * i / steps)));
}
