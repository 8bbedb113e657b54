/** What a mark does to a patch. */
export const MARKS = { none: 0, blank: 1, blur: 2 };
// ImageNet's mean colour: the model takes it as zero.
const BLANK = [124, 116, 104];

/** A plane of bytes after `times` means over a square of `2 reach + 1` pixels, edges repeated. */
export function blurred(plane, side, reach, times = 3) {
  let from = Float32Array.from(plane);
  const width = 2 * reach + 1, clip = (at) => Math.min(side - 1, Math.max(0, at));
  for (let pass = 0; pass < 2 * times; pass++) {
    const to = new Float32Array(from.length), along = pass % 2 ? side : 1, across = pass % 2 ? 1 : side;
    for (let line = 0; line < side; line++) {
      const at = (i) => from[line * across + clip(i) * along];
      let sum = 0;
      for (let i = -reach; i <= reach; i++) sum += at(i);
      for (let i = 0; i < side; i++) {
        to[line * across + i * along] = sum / width;
        sum += at(i + reach + 1) - at(i - reach);
      }
    }
    from = to;
  }
  return from;
}

/** Pixels with marked patches blank, or blurred over about a patch. */
export function marked(planes, side, marks, columns, soft) {
  if (!marks.some(Boolean)) return planes;
  const given = planes.slice(), patch = side / columns, count = side * side;
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const mark = marks[Math.floor(y / patch) * columns + Math.floor(x / patch)];
      if (!mark) continue;
      for (let c = 0; c < 3; c++) {
        const at = c * count + y * side + x;
        given[at] = mark === MARKS.blank ? BLANK[c] : Math.round(soft[at]);
      }
    }
  }
  return given;
}

/** All three colours, blurred. */
export function softened(planes, side, reach) {
  const count = side * side, soft = new Float32Array(planes.length);
  for (let c = 0; c < 3; c++) soft.set(blurred(planes.subarray(c * count, (c + 1) * count), side, reach), c * count);
  return soft;
}

/** Marks on a grid of other columns: where a patch held any, the new one does. */
export function rescaled(marks, columns) {
  const were = Math.round(Math.sqrt(marks.length)), most = Math.max(were, columns);
  const made = new Uint8Array(columns * columns);
  for (let row = 0; row < most; row++) {
    for (let column = 0; column < most; column++) {
      const [from, to] = [were, columns].map((each) =>
        Math.floor(row * each / most) * each + Math.floor(column * each / most));
      made[to] = Math.max(made[to], marks[from]);
    }
  }
  return made;
}
