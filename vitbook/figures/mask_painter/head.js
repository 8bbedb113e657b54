/** The solution of a x = b by Cholesky, for a symmetric and positive definite a. */
export function solved(a, b) {
  const size = b.length, low = a.map(() => new Float64Array(size)), x = Float64Array.from(b);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[i][j];
      for (let k = 0; k < j; k++) sum -= low[i][k] * low[j][k];
      low[i][j] = i === j ? Math.sqrt(sum) : sum / low[j][j];
    }
    for (let k = 0; k < i; k++) x[i] -= low[i][k] * x[k];
    x[i] /= low[i][i];
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) x[i] -= low[k][i] * x[k];
    x[i] /= low[i][i];
  }
  return x;
}

/** Scores of all patches by ridge regression on the painted ones, as in head.py; null if a class lacks. */
export function headScores(levels, marks, penalty) {
  const patches = marks.length, width = levels.length / patches, size = width + 1;
  const counts = [1, -1].map((kind) => marks.filter((mark) => mark === kind).length);
  if (counts.includes(0)) return null;
  const deviation = Math.sqrt(levels.reduce((sum, level) => sum + level * level, 0) / levels.length) || 1;
  const input = (patch, j) => j < width ? levels[patch * width + j] / deviation : 1;
  const a = Array.from({ length: size }, () => new Float64Array(size)), b = new Float64Array(size);
  for (let patch = 0; patch < patches; patch++) {
    if (!marks[patch]) continue;
    const each = .5 / counts[marks[patch] > 0 ? 0 : 1];
    for (let i = 0; i < size; i++) {
      b[i] += each * marks[patch] * input(patch, i);
      for (let j = 0; j <= i; j++) a[i][j] += each * input(patch, i) * input(patch, j);
    }
  }
  for (let i = 0; i < width; i++) a[i][i] += penalty; // the bias has none
  const weights = solved(a, b);
  return Float64Array.from(marks, (_, patch) =>
    weights.reduce((sum, weight, j) => sum + weight * input(patch, j), 0));
}

/** For each of `large` places along a side the two of `small` it lies between, and its part of the second. */
const placed = (small, large) => Array.from({ length: large }, (_, i) => {
  const at = Math.max((i + .5) * small / large - .5, 0), low = Math.floor(at);
  return [low, Math.min(low + 1, small - 1), at - low];
});

/** Scores of a grid enlarged bilinearly to side x side, as torch does without `align_corners`. */
export function enlarged(scores, [rows, columns], side) {
  const across = placed(columns, side), large = new Float64Array(side * side);
  placed(rows, side).forEach(([top, bottom, down], y) => across.forEach(([left, right, part], x) => {
    const along = (row) => (1 - part) * scores[row * columns + left] + part * scores[row * columns + right];
    large[y * side + x] = (1 - down) * along(top) + down * along(bottom);
  }));
  return large;
}

/** Whether each pixel of a mask is set, of bits from the highest on. */
export const unpacked = (raw, count) => Uint8Array.from({ length: count }, (_, i) => raw[i >> 3] >> (7 - (i & 7)) & 1);

/** Intersection over union of two masks of 0 and 1. */
export function overlap(found, mask) {
  let both = 0, either = 0;
  found.forEach((set, i) => {
    both += set & mask[i];
    either += set | mask[i];
  });
  return both / Math.max(either, 1);
}

/** The edges of a mask of side x side as the path of an SVG. */
export function outline(mask, side) {
  const at = (row, column) => row >= 0 && column >= 0 && row < side && column < side && mask[row * side + column];
  let path = "";
  mask.forEach((set, i) => {
    if (!set) return;
    const row = Math.floor(i / side), column = i % side;
    if (!at(row - 1, column)) path += `M${column} ${row}h1`;
    if (!at(row + 1, column)) path += `M${column} ${row + 1}h1`;
    if (!at(row, column - 1)) path += `M${column} ${row}v1`;
    if (!at(row, column + 1)) path += `M${column + 1} ${row}v1`;
  });
  return path;
}
