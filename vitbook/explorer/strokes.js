/** Cells on the way from one to another, both included. */
export function way(from, to) {
  const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
  return Array.from({ length: steps + 1 }, (_, i) =>
    [0, 1].map((axis) => Math.round(from[axis] + (to[axis] - from[axis]) * i / steps)));
}
