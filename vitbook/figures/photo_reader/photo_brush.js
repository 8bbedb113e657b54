/** What a mark does to a patch. */
export const MARKS = { none: 0, blank: 1, blur: 2 };
// ImageNet's mean colour: the model takes it as zero.
const BLANK = [124, 116, 104];

/** A plane of bytes after `times` means over a square of `2 reach + 1` pixels, edges repeated. */
export function blurred(plane, [height, width], reach, times = 3) {
  let from = Float32Array.from(plane);
  for (let pass = 0; pass < 2 * times; pass++) {
    const to = new Float32Array(from.length);
    const [lines, across, length, along] = pass % 2 ? [width, 1, height, width] : [height, width, width, 1];
    for (let line = 0; line < lines; line++) {
      const at = (i) => from[line * across + Math.min(length - 1, Math.max(0, i)) * along];
      let sum = 0;
      for (let i = -reach; i <= reach; i++) sum += at(i);
      for (let i = 0; i < length; i++) {
        to[line * across + i * along] = sum / (2 * reach + 1);
        sum += at(i + reach + 1) - at(i - reach);
      }
    }
    from = to;
  }
  return from;
}

/** Pixels with marked patches blank, or blurred over about a patch. */
export function marked(planes, [height, width], marks, [rows, columns], soft) {
  if (!marks.some(Boolean)) return planes;
  const given = planes.slice(), count = height * width;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const mark = marks[Math.floor(y * rows / height) * columns + Math.floor(x * columns / width)];
      if (!mark) continue;
      for (let c = 0; c < 3; c++) {
        const at = c * count + y * width + x;
        given[at] = mark === MARKS.blank ? BLANK[c] : Math.round(soft[at]);
      }
    }
  }
  return given;
}

/** All three colours, blurred. */
export function softened(planes, size, reach) {
  const count = size[0] * size[1], soft = new Float32Array(planes.length);
  for (let c = 0; c < 3; c++) soft.set(blurred(planes.subarray(c * count, (c + 1) * count), size, reach), c * count);
  return soft;
}

/** Marks on a grid of other rows and columns: where a patch held any, the new one does. */
export function rescaled(marks, were, grid) {
  const [down, across] = [0, 1].map((axis) => Math.max(were[axis], grid[axis]));
  const made = new Uint8Array(grid[0] * grid[1]);
  for (let row = 0; row < down; row++) {
    for (let column = 0; column < across; column++) {
      const [from, to] = [were, grid].map(([rows, columns]) =>
        Math.floor(row * rows / down) * columns + Math.floor(column * columns / across));
      made[to] = Math.max(made[to], marks[from]);
    }
  }
  return made;
}
