import { apart, PEN } from "./ink.js";
import { clamp } from "./numbers.js";

// Strokes become pixels as the training digits did. "Preprocessing programs made available by NIST" made bitmaps of
// 32 x 32 of them (Garris et al. 1994, NISTIR 5469, and its code), whose ink was counted in blocks of 4 x 4. Points come
// as in ink.js. `vitbook.studies.draw` has the same in Python, and measures with it.
const BLOCK = 4;
const BOX = 20 / 32; // of the bitmap's width: every digit is stretched to it, and to the whole height
const NIB = 0.19; // width of the pen, as a share of the digit's longer side: the training digits' ink
// Shares of the bitmap that are ink: above, a layer is taken off; below, one is put on; beyond the second, two.
const THICK = [412 / 1024, 560 / 1024], THIN = [256 / 1024, 108 / 1024];
const EDGE = 2; // rows at the top and at the bottom that do not say how a digit leans
const APART = 0.08, HALF = 0.5; // between two digits lies so much of their height, and each has half of it
const WIDEST = 1.5; // of the height; no digit is so wide
const STRAIGHT = 0.06, STEEP = 0.7; // points of a line leave it by so much of its length; an upright one leans less

/** Left, right, top and bottom of points. */
const boxOf = (points) => [0, 1].flatMap((axis) => [Math.min, Math.max].map((end) =>
  points.reduce((most, point) => end(most, point[axis]), points[0][axis])));

/** The bitmap with every pixel that has (grow) or lacks (not grow) ink beside it given or taken ink. */
function layer(ink, high, wide, grow) {
  const at = (y, x) => y >= 0 && y < high && x >= 0 && x < wide && ink[y * wide + x];
  return ink.map((own, i) => {
    const y = Math.floor(i / wide), x = i % wide;
    const beside = [at(y - 1, x), at(y + 1, x), at(y, x - 1), at(y, x + 1)];
    return grow ? own || beside.some(Boolean) : own && beside.every(Boolean);
  });
}

/** Moved sideways row by row, so that the first ink of a row near the top stands above that of one near the bottom. */
function upright(ink, high, wide) {
  const row = (y) => ink.slice(y * wide, (y + 1) * wide), full = Array.from({ length: high }, (_, y) => row(y).includes(true));
  const top = full.indexOf(true) + EDGE, bottom = full.lastIndexOf(true) - EDGE;
  if (top >= bottom) return ink;
  const [first, last] = [row(top).indexOf(true), row(bottom).indexOf(true)];
  if (first < 0 || last < 0) return ink;
  const lean = (first - last) / (bottom - top);
  return ink.map((_, i) => {
    const y = Math.floor(i / wide), from = i % wide - Math.floor((y - high / 2) * lean + 0.5);
    return from >= 0 && from < wide && ink[y * wide + from];
  });
}

/** Strokes as a bitmap, row by row: stretched, of even thickness, upright. */
export function bitmapOf(strokes, [high, wide]) {
  const [left, right, top, bottom] = boxOf(strokes.flat());
  const nib = NIB * Math.max(right - left, bottom - top, 1), reach = (nib / 2) ** 2;
  const box = Math.round(BOX * wide), margin = Math.floor((wide - box) / 2);
  const [across, down] = [(right - left + nib) / box, (bottom - top + nib) / high];
  let ink = Array(high * wide).fill(false);
  for (const stroke of strokes) {
    stroke.forEach((b, i) => {
      const a = stroke[Math.max(i - 1, 0)], [dx, dy] = [b[0] - a[0], b[1] - a[1]], length = dx * dx + dy * dy || 1;
      for (let row = 0; row < high; row++) {
        const y = top - nib / 2 + (row + 0.5) * down - a[1];
        for (let column = 0; column < box; column++) {
          const x = left - nib / 2 + (column + 0.5) * across - a[0];
          const along = clamp((x * dx + y * dy) / length, 0, 1), [u, v] = [x - along * dx, y - along * dy];
          if (u * u + v * v <= reach) ink[row * wide + margin + column] = true;
        }
      }
    });
  }
  const share = ink.filter(Boolean).length / ink.length;
  const off = THICK.filter((most) => share > most).length, on = THIN.filter((least) => share < least).length;
  for (let i = 0; i < off + on; i++) ink = layer(ink, high, wide, on > 0);
  return upright(ink, high, wide);
}

/** Strokes as the model sees them: pixels 0..255 in whole levels, row by row. */
export function pixelsOf(strokes, [rows, columns], levels) {
  const wide = columns * BLOCK, ink = bitmapOf(strokes, [rows * BLOCK, wide]), counts = Array(rows * columns).fill(0);
  ink.forEach((on, i) => {
    if (on) counts[Math.floor(i / wide / BLOCK) * columns + Math.floor(i % wide / BLOCK)]++;
  });
  return counts.map((count) => Math.round(Math.round(count / BLOCK ** 2 * levels) * 255 / levels));
}

/** Why strokes are no digit, as a sentence; empty where they may be one. */
export function noDigit(strokes) {
  const points = strokes.flat();
  if (!points.length) return "The pad is empty: there is no digit to read.";
  const [left, right, top, bottom] = boxOf(points), [wide, high] = [right - left, bottom - top];
  if (Math.max(wide, high) < PEN) return "This is a dot, not a digit: draw on.";
  const ends = [points.reduce((a, b) => b[0] + b[1] < a[0] + a[1] ? b : a), points.reduce((a, b) => b[0] + b[1] > a[0] + a[1] ? b : a)];
  const others = [points.reduce((a, b) => b[0] - b[1] < a[0] - a[1] ? b : a), points.reduce((a, b) => b[0] - b[1] > a[0] - a[1] ? b : a)];
  const size = (pair) => Math.hypot(pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]);
  const line = size(ends) >= size(others) ? ends : others;
  const straight = points.every((point) => apart(point, ...line) <= STRAIGHT * size(line));
  if (straight && wide > STEEP * high) return "This is a line. Only an upright one is a digit, a 1.";
  // Strokes from left to right; what stands clear of all before it begins another digit.
  const boxes = strokes.map(boxOf).sort((a, b) => a[0] - b[0]), digits = [boxes[0].slice()];
  for (const [from, to, upper, lower] of boxes.slice(1)) {
    const last = digits.at(-1);
    if (from > last[1] + APART * high) digits.push([from, to, upper, lower]);
    else digits[digits.length - 1] = [last[0], Math.max(last[1], to), Math.min(last[2], upper), Math.max(last[3], lower)];
  }
  if (digits.filter(([,, upper, lower]) => lower - upper >= HALF * high).length > 1) {
    return "These are two digits, and the model reads one: erase one of them.";
  }
  return wide > WIDEST * high ? "This is too wide for one digit: draw one, taller than wide." : "";
}
