import { argmax, bytes, clamp } from "../parts/numbers.js";
import { stated } from "../parts/address.js";

// A digit on the canvas is its number, its left and top in pixels, and its size in tenths.
export const SMALLEST = 10, LARGEST = 20; // as in canvas.py
export const MOST_DIGITS = 12; // more than there are queries
const SIZES = LARGEST - SMALLEST + 1;
const COVERED = 0.1; // of the smaller of two digits' boxes: so much is hardly
const SURE = 0.5; // from here on a query tells a digit, and a box is the digit's: as in __init__.py

/** The digits at each size, as Python enlarged them. */
export const unpackedSizes = (digits) => digits.map((sizes) => sizes.map(([height, width, text]) =>
  ({ height, width, pixels: bytes(text) })));
export const patchOf = (sizes, [which, , , tenths]) => sizes[which][tenths - SMALLEST];

/** The canvas; where two digits meet the lighter pixel counts. */
export function laidOut(sizes, side, placed) {
  const canvas = new Uint8Array(side * side);
  for (const one of placed) {
    const { width, pixels } = patchOf(sizes, one);
    pixels.forEach((value, i) => {
      const at = (one[2] + Math.floor(i / width)) * side + one[1] + i % width;
      canvas[at] = Math.max(canvas[at], value);
    });
  }
  return canvas;
}

/** A digit within the canvas, as near as can be. */
export function within(sizes, side, [which, left, top, tenths]) {
  const { width, height } = patchOf(sizes, [which, left, top, tenths]);
  return [which, clamp(left, 0, side - width), clamp(top, 0, side - height), tenths];
}

/** Of another size, about the same middle. */
export function resized(sizes, side, one, tenths) {
  const before = patchOf(sizes, one), after = patchOf(sizes, [one[0], 0, 0, tenths]);
  return within(sizes, side, [one[0], one[1] + Math.trunc((before.width - after.width) / 2),
    one[2] + Math.trunc((before.height - after.height) / 2), tenths]);
}

/** Left, top, right and bottom of a digit, in shares of the canvas. */
export function cutOf(sizes, side, one) {
  const { width, height } = patchOf(sizes, one), [, left, top] = one;
  return [left, top, left + width, top + height].map((end) => end / side);
}
export const cornersOf = ([x, y, width, height]) => [x - width / 2, y - height / 2, x + width / 2, y + height / 2];

/** The area that two boxes share, given by their corners. */
export const shared = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) *
  Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
/** Intersection over union. */
export function overlapOf(a, b) {
  const both = shared(a, b);
  return both / (shared(a, a) + shared(b, b) - both);
}

/** The best guess of a query: what it says, with which chance, and whether that is a digit. */
export function bestOf(chances) {
  const label = argmax(chances), chance = chances[label];
  return { label, chance, sure: label < chances.length - 1 && chance >= SURE };
}

/** Of each digit the query that answers for it; -1 if none does. The surest one that lies on it. */
export function tellersOf(cuts, { chances, boxes }) {
  const best = chances.map(bestOf);
  return cuts.map((cut) => best.reduce((found, { sure, chance }, query) =>
    sure && overlapOf(cornersOf(boxes[query]), cut) >= SURE && !(found >= 0 && best[found].chance >= chance)
      ? query : found, -1));
}

/** The first digit that is hardly covered and for which no query answers; -1 if there is none. */
export const overlooked = (cuts, tellers) => cuts.findIndex((cut, i) => tellers[i] < 0 &&
  cuts.every((other, j) => i === j ||
    shared(cut, other) <= COVERED * Math.min(shared(cut, cut), shared(other, other))));

/** Between two boxes; below zero where they overlap. */
const gapOf = (a, b) => Math.max(a[0] - b[2], b[0] - a[2], a[1] - b[3], b[1] - a[3]);

/** Where a digit is farthest from the others, and of such places nearest to the middle. */
export function freest(sizes, side, placed, which, tenths) {
  const { width, height } = patchOf(sizes, [which, 0, 0, tenths]);
  const cuts = placed.map((one) => cutOf(sizes, side, one));
  let best, most = -side, nearest = Infinity;
  for (let top = 0; top <= side - height; top++) {
    for (let left = 0; left <= side - width; left++) {
      const one = [which, left, top, tenths], cut = cutOf(sizes, side, one);
      const gap = Math.min(side, ...cuts.map((other) => Math.round(side * gapOf(cut, other)))); // in pixels
      const away = Math.hypot(left + width / 2 - side / 2, top + height / 2 - side / 2);
      if (gap > most || gap === most && away < nearest) [best, most, nearest] = [one, gap, away];
    }
  }
  return best;
}

/** The canvas as numbers of a link: how many digits, and one number for each. */
export const wordsOfPlaced = (placed, side) => ({ n: placed.length, ...Object.fromEntries(placed.map(
  ([which, left, top, tenths], i) => [`d${i}`, ((which * side + left) * side + top) * SIZES + tenths - SMALLEST])) });

/** What a link says of a state, as far as the page has it. */
export function answersState(text, sizes, side, queries) {
  const limits = Object.fromEntries(Array.from({ length: MOST_DIGITS }, (_, i) =>
    [`d${i}`, [0, sizes.length * side * side * SIZES - 1]]));
  const { n, query, held, ...words } = stated(text,
    { n: [0, MOST_DIGITS], query: [-1, queries - 1], held: [-1, MOST_DIGITS - 1], ...limits });
  const found = query === undefined ? {} : { query };
  const numbers = Array.from({ length: n ?? 0 }, (_, i) => words[`d${i}`]);
  if (n === undefined || numbers.includes(undefined)) return found;
  const placed = numbers.map((number) => {
    const tenths = SMALLEST + number % SIZES, at = Math.floor(number / SIZES);
    return within(sizes, side, [Math.floor(at / side / side), Math.floor(at / side) % side, at % side, tenths]);
  });
  return { ...found, placed, held: Math.min(held ?? 0, n - 1) };
}
