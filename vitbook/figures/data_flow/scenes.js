import { clamp, place } from "../parts/numbers.js";

/** Steps before the first layer: the photograph, its patches, a row of them, the tokens. */
export const BEFORE = 4;
/** Between prefix tokens in the row, in pixels. */
export const PREFIX_STEP = 7;
const OPEN = 0.8; // of a cell, once the patches are apart
const CLOSED = 0.88; // of the open grid
const LIST = 300, LINE = 34, GAP = 24; // of the names of an answer, in pixels

/** Where everything lies on a stage of a width, in pixels. */
export function flowPlan(width, { grid: [rows, columns], depth, prefix, small, stops, names }) {
  const narrow = width < 560, thick = small ? 11 : 14, fan = small ? 62 : 92, words = 22;
  const thin = (small ? 44 : 66) / Math.max(depth - 1, 1), room = small ? 42 : 50, gap = narrow ? 14 : 24;
  const side = small ? 124 : narrow ? Math.min(168, (width - gap) / 2) : 204;
  const cell = side / Math.max(rows, columns), [wide, high] = [cell * columns, cell * rows];
  const top = words + high + room, foot = top + thin * (depth - 1) + 2 * thick + fan, height = foot + words;
  const pitch = Math.min((width - 8) / columns, (height - 8) / rows);
  const first = prefix ? PREFIX_STEP * prefix + 5 : 0, unit = (width - first) / (rows * columns);
  const middle = (size) => ({ x: (width - size * columns) / 2, y: (height - size * rows) / 2, cell: size });
  const closed = middle(CLOSED * pitch);
  return {
    width, height, rows, columns, depth, prefix, stops, thick, thin, top, foot, unit, first, room, words,
    tag: small ? 24 : 30,
    open: middle(pitch), closed, ...answerPlan(closed, width, height, names),
    left: { x: (width - gap) / 2 - wide, y: words, cell }, right: { x: (width + gap) / 2, y: words, cell },
  };
}

/** Where the photograph lies at the end: in the middle, or beside or above the names of an answer. */
function answerPlan(closed, width, height, names) {
  if (!names) return { answer: closed };
  const wide = 2 * (width / 2 - closed.x), list = Math.min(LIST, width), high = LINE * names.length;
  const beside = wide + GAP + list <= width;
  const share = beside ? 1 : Math.min(1, (height - high - GAP) / (height - 2 * closed.y));
  const left = beside ? (width - wide - GAP - list) / 2 : (width - share * wide) / 2;
  const answer = { x: left, y: beside ? closed.y : 0, cell: share * closed.cell };
  return {
    answer, list: beside ? [left + wide + GAP, (height - high) / 2, list, high]
      : [(width - list) / 2, height - high, list, high],
  };
}

/** The layer, from 1, that a step shows; 0 before the first. */
export const layerOf = ({ stops, depth }, step) => step < BEFORE ? 0 : stops[step - BEFORE] ?? depth;

/** [x, y, width, height] of a patch in a grid; `share` of its cell is covered. */
export function cellOf(plan, { x, y, cell }, patch, share = 1) {
  const [row, column] = place(patch, plan.columns), margin = cell * (1 - share) / 2;
  return [x + column * cell + margin, y + row * cell + margin, cell * share, cell * share];
}

/** The left edge of a token in the row: prefix tokens first, then the patches. */
export const tokenAt = (plan, token) => token < plan.prefix ? PREFIX_STEP * token
  : plan.first + (token - plan.prefix) * plan.unit;
export const middleOf = (plan, token) =>
  tokenAt(plan, token) + (token < plan.prefix ? PREFIX_STEP - 1 : plan.unit) / 2;

/** Above its token in the row a patch is seen once more. */
export const tagOf = (plan, patch) => [
  clamp(middleOf(plan, plan.prefix + patch) - plan.tag / 2, 0, plan.width - plan.tag),
  plan.top - plan.room + 6, plan.tag, plan.tag,
];

/** Top and height of the row after a layer, while layer `now` is the newest one. */
function rowOf(plan, layer, now) {
  if (now === 0) return [plan.top, plan.foot - plan.top];
  // The newest stays at the bottom: the rows that pile up above it take their room from the lines.
  if (layer >= now) return [plan.foot - plan.thick, plan.thick];
  return [plan.top + layer * plan.thin, layer === now - 1 ? plan.thick : plan.thin];
}

/**
 * What the stage shows at rest in a step. Of two steps all numbers can be mixed.
 * @param {Float32Array[]} colors  of each layer's tokens, "tokens 3"
 */
export function flowScene(plan, step, colors) {
  const { rows, columns, depth, stops } = plan, count = rows * columns, last = BEFORE + stops.length;
  const layer = layerOf(plan, step), flat = step >= 2 && step < last;
  const places = new Float32Array(4 * count), lines = new Float32Array(3 * (depth + 1));
  const [y, high] = rowOf(plan, layer, layer);
  for (let i = 0; i < count; i++) {
    places.set(flat ? [tokenAt(plan, plan.prefix + i), y, plan.unit, high]
      : step === 1 ? cellOf(plan, plan.open, i, OPEN) : cellOf(plan, step === last ? plan.answer : plan.closed, i), 4 * i);
  }
  for (let i = 0; i <= depth; i++) {
    lines.set([...rowOf(plan, Math.min(i, layer), layer), flat && step > 2 && i <= layer ? 1 : 0], 3 * i);
  }
  return {
    step, layer, flat, places, lines, colors: colors[layer],
    parts: {
      y, high, flat: Number(flat), pixels: Number(!flat || step === 2), ghost: Number(flat),
      veil: Number(flat && layer > 0), zoom: Number(step === 2), right: Number(flat && step > 2), prefix: Number(flat && step > 2),
      fan: Number(flat && layer > 0), answer: Number(step === last),
    },
  };
}

export const smooth = (t) => t * t * (3 - 2 * t);

/** Between two scenes; patches that fly do so one after the other. */
export function flowBetween(a, b, t) {
  if (t >= 1) return b;
  const even = smooth(t), count = a.places.length / 4, late = a.flat === b.flat ? 0 : 0.55;
  const mix = (from, to) => from.map((value, i) => value + even * (to[i] - value));
  const places = a.places.map((value, i) => {
    const own = clamp((t - late * Math.floor(i / 4) / count) / (1 - late), 0, 1);
    return value + smooth(own) * (b.places[i] - value);
  });
  const parts = Object.fromEntries(Object.entries(b.parts).map(([name, to]) =>
    [name, a.parts[name] + even * (to - a.parts[name])]));
  // What lies over all comes when the patches are there, and goes before they leave.
  parts.answer = b.parts.answer > a.parts.answer ? clamp(3 * t - 2, 0, 1) : a.parts.answer * clamp(1 - 3 * t, 0, 1);
  return { ...b, places, parts, lines: mix(a.lines, b.lines), colors: mix(a.colors, b.colors) };
}
