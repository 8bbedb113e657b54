import { place, softmax } from "../parts/numbers.js";

const COLOR_LEVELS = 8, COLOR_STEP = 256 / COLOR_LEVELS; // 3 bits a channel
const LIKELIEST = 5; // as in __init__.py
const WORD = 32; // patches in a number of a link

/** Mean of each channel over the pixels of each patch, 0 to 255: [patch][channel]. */
export function meanColors(pixels, [height, width], [high, wide]) {
  const columns = width / wide, channels = pixels.length / height / width;
  const sums = Array.from({ length: (height / high) * columns }, () => Array(channels).fill(0));
  pixels.forEach((value, i) => {
    const at = i % (height * width), row = Math.floor(at / width / high);
    sums[row * columns + Math.floor((at % width) / wide)][Math.floor(i / height / width)] += value;
  });
  return sums.map((sum) => sum.map((channel) => channel / high / wide));
}

/** The number of a colour at 3 bits a channel; the first channel weighs most. */
export const colorClass = (color) =>
  color.reduce((sum, value) => COLOR_LEVELS * sum + Math.floor(value / COLOR_STEP), 0);

/** The steps of a class, 0 to 7 in each channel. */
export const levelsOf = (color, channels) => Array.from({ length: channels }, (_, i) =>
  Math.floor(color / COLOR_LEVELS ** (channels - 1 - i)) % COLOR_LEVELS);

/** The colour in the middle of a class, as red, green and blue. */
export function middleOf(color, channels) {
  const levels = levelsOf(color, channels).map((level) => COLOR_STEP * (level + 0.5));
  return channels === 1 ? [...levels, ...levels, ...levels] : levels;
}

/** The likeliest classes with their chances, and the place and the chance of the true one. */
export function answerOf(logits, truth) {
  const chances = softmax(logits);
  const order = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]);
  return { top: order.slice(0, LIKELIEST).map((color) => [color, chances[color]]),
    rank: order.indexOf(truth) + 1, chance: chances[truth] };
}

/** Of equally common ones the first. */
export function commonest(classes) {
  const counts = new Map();
  for (const each of [...classes].sort((a, b) => a - b)) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

/** The class of the mean of the visible patches that are nearest, diagonals too; -1 if none is. */
export function nearestClass(means, masked, patch, columns) {
  const [row, column] = place(patch, columns);
  const far = means.map((_, i) => {
    const [r, c] = place(i, columns);
    return masked.has(i) ? Infinity : Math.max(Math.abs(r - row), Math.abs(c - column));
  });
  const least = Math.min(...far);
  if (least === Infinity) return -1;
  const near = means.filter((_, i) => far[i] === least);
  return colorClass(near[0].map((_, channel) =>
    near.reduce((sum, mean) => sum + mean[channel], 0) / near.length));
}

/** Which patches are masked, as numbers of 32 bits: `m0`, `m1` and so on. */
export function wordsOf(masked, patches) {
  const words = Array(Math.ceil(patches / WORD)).fill(0);
  for (const patch of masked) words[Math.floor(patch / WORD)] += 2 ** (patch % WORD);
  return Object.fromEntries(words.map((word, i) => [`m${i}`, word]));
}

/** What such numbers may be: the last one has no more bits than there are patches. */
export const wordLimits = (patches) => Object.fromEntries(
  Object.keys(wordsOf([], patches)).map((name, i) => [name, [0, 2 ** Math.min(WORD, patches - WORD * i) - 1]]));

/** The patches of such numbers; nothing where one of them is missing. */
export function maskedBy(words, patches) {
  const names = Object.keys(wordsOf([], patches));
  if (names.some((name) => !Object.hasOwn(words, name))) return null;
  return Array.from({ length: patches }, (_, patch) => patch).filter((patch) =>
    Math.floor(words[`m${Math.floor(patch / WORD)}`] / 2 ** (patch % WORD)) % 2);
}
