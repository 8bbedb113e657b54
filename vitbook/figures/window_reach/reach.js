/** The blocks of all stages in a row, as in reach.py. */
export const blocksOf = (side, window, depths, { shift, merge }) => depths.flatMap((depth, stage) => {
  const patches = merge ? 2 ** stage : 1, wide = Math.min(window, side / patches);
  const moved = shift && wide < side / patches ? Math.floor(wide / 2) : 0;
  return Array.from({ length: depth }, (_, number) =>
    ({ stage, patches, window: wide, shift: number % 2 ? moved : 0 }));
});

/** First and last patch, along a side, that the token of a patch sees behind the blocks. */
export function seen(place, side, blocks) {
  let now = blocks.at(-1)?.patches ?? 1, low = Math.floor(place / now), high = low;
  for (const { patches, window, shift } of [...blocks].reverse()) {
    const times = now / patches; // a merged token is that many of those before it
    [low, high, now] = [low * times, high * times + times - 1, patches];
    const start = (at) => Math.floor((at - shift) / window) * window + shift;
    [low, high] = [Math.max(0, start(low)), Math.min(side / now, start(high) + window) - 1];
  }
  return [low * now, high * now + now - 1];
}

/** Scores that the blocks compute, a head; those that a mask hides too. */
export const pairs = (side, blocks) =>
  blocks.reduce((sum, { patches, window }) => sum + (side / patches * window) ** 2, 0);
