import { clamp } from "./numbers.js";

// Ink is a list of strokes, and a stroke a list of points [x, y], whole numbers from 0 to SIDE - 1
// over the pad: so a link holds it to the last bit, and it can be moved and scaled without blur.
export const SIDE = 512;
export const MOST_POINTS = 600; // a link of 1,800 letters
export const ERASER = 30; // its radius; the pad's line is PEN wide
export const PEN = 30;
const CLOSE = 2; // points nearer than this to the line without them are left out
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** From its place in the pad, 0 to 1 from the left and from the top, to a point. */
export const pointOf = (place) => place.map((p) => clamp(Math.round(p * (SIDE - 1)), 0, SIDE - 1));
export const countPoints = (strokes) => strokes.reduce((sum, stroke) => sum + stroke.length, 0);

/** How far a point lies from a line between two others. */
export function apart([x, y], [x0, y0], [x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const along = clamp(((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1), 0, 1);
  return Math.hypot(x - x0 - along * dx, y - y0 - along * dy);
}

/** A stroke without the points that it hardly needs (Douglas and Peucker 1973). */
export function simpler(stroke) {
  if (stroke.length < 3) return stroke;
  const [first, last] = [stroke[0], stroke.at(-1)];
  const away = stroke.map((point) => apart(point, first, last)), most = Math.max(...away);
  if (most <= CLOSE) return [first, last];
  const at = away.indexOf(most);
  return [...simpler(stroke.slice(0, at + 1)).slice(0, -1), ...simpler(stroke.slice(at))];
}

/** What a round eraser leaves of the strokes: it may cut one in two. */
export function erased(strokes, [x, y], radius = ERASER) {
  return strokes.flatMap((stroke) => {
    const parts = [[]], free = ([px, py]) => Math.hypot(px - x, py - y) > radius;
    const start = stroke[0];
    if (free(start)) parts.at(-1).push(start);
    for (let i = 1; i < stroke.length; i++) {
      const [[ax, ay], [bx, by]] = [stroke[i - 1], stroke[i]];
      const [dx, dy, fx, fy] = [bx - ax, by - ay, ax - x, ay - y];
      if (!dx && !dy) continue; // the same point again
      // |a + t (b - a) - eraser| = radius, solved for t.
      const a = dx * dx + dy * dy, b = fx * dx + fy * dy, c = fx * fx + fy * fy - radius * radius;
      const root = Math.sqrt(Math.max(b * b - a * c, 0)), [into, out] = [(-b - root) / a, (-b + root) / a];
      const at = (t) => [Math.round(ax + t * dx), Math.round(ay + t * dy)];
      if (b * b > a * c && into < 1 && out > 0) {
        if (into > 0) parts.at(-1).push(at(into));
        parts.push([]);
        if (out >= 1) continue;
        parts.at(-1).push(at(out));
      }
      parts.at(-1).push([bx, by]);
    }
    return parts.filter((part) => part.length);
  });
}

/** Which cells of a grid the strokes cross, row by row. */
export function crossed(strokes, rows, columns) {
  const cells = Array(rows * columns).fill(false);
  for (const stroke of strokes) {
    stroke.forEach((to, i) => {
      const from = stroke[Math.max(i - 1, 0)], steps = Math.max(1, ...[0, 1].map((a) => Math.abs(to[a] - from[a])));
      for (let step = 0; step <= steps; step++) {
        const [x, y] = [0, 1].map((a) => (from[a] + (to[a] - from[a]) * step / steps) / SIDE);
        cells[Math.floor(y * rows) * columns + Math.floor(x * columns)] = true;
      }
    });
  }
  return cells;
}

/** Strokes as letters for a link: three a point, a dot between strokes. */
export const lettersOf = (strokes) => strokes.map((stroke) => stroke.map(([x, y]) => {
  const number = x * SIDE + y;
  return [12, 6, 0].map((shift) => LETTERS[(number >> shift) & 63]).join("");
}).join("")).join(".");

/** The strokes of such letters; nothing where they are none, or too many. */
export function strokesOf(text) {
  if (!/^([\w-]{3})+(\.([\w-]{3})+)*$/.test(text)) return null;
  const strokes = text.split(".").map((stroke) => stroke.match(/.../g).map((three) => {
    const number = [...three].reduce((sum, letter) => 64 * sum + LETTERS.indexOf(letter), 0);
    return [Math.floor(number / SIDE), number % SIDE];
  }));
  return countPoints(strokes) > MOST_POINTS ? null : strokes;
}

/** Grey levels as letters, one a pixel, and back; nothing where they are none. */
export const lettersOfLevels = (pixels, levels) =>
  pixels.map((pixel) => LETTERS[Math.round(pixel * levels / 255)]).join("");
export function pixelsOfLetters(text, count, levels) {
  const found = [...text].map((letter) => LETTERS.indexOf(letter));
  if (found.length !== count || found.some((level) => level < 0 || level > levels)) return null;
  return found.map((level) => Math.round(level * 255 / levels));
}
