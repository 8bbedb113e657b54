import { node } from "./page.js";
import { paint, rgb } from "./paint.js";
import { inWords, place } from "./numbers.js";
import { canvas, div, frame, grid, label, labelled, note, track } from "./parts.js";
import { live } from "./live.js";

const MOST_BUTTONS = 16; // a side; on a larger grid a button stands for several tokens

/** Does token `other` reach token `one` in this many layers? Tokens are counted row by row. */
export function hears(kind, side, block, one, other, layers) {
  const [row, column] = place(one, side), [r, c] = place(other, side);
  if (kind === "rows") return row === r;
  if (kind === "axial") return row === r || layers > 1;
  if (kind !== "blocks") return true;
  return [[row, r], [column, c]].every(([a, b]) => Math.floor(a / block) === Math.floor(b / block));
}

/** Scores and weighted values of one layer, two multiply-adds a head number as one pair. */
export function pairs(kind, side, { block, keys, features }) {
  const read = {
    all: side * side, rows: side, axial: side, blocks: block * block,
    linformer: 2 * keys, performer: 2 * features,
  };
  return side * side * read[kind];
}

/** The token at the same place of another grid: a corner stays a corner. */
export function moved(token, from, to) {
  const [row, column] = place(token, from).map((x) => Math.round(x * (to - 1) / (from - 1)));
  return row * to + column;
}

/**
 * @param {HTMLElement} root
 * @param {{sides: number[], side: number, pattern: string, token: number, block: number,
 *   keys: number, features: number, names: Record<string, string>, thin: Record<string, string>,
 *   colors: {own: string, mixed: string, none: string}, task: string}} data
 */
export function render(root, data) {
  const { sides, block, names, thin } = data;
  const shades = Object.fromEntries(Object.entries(data.colors).map(([k, v]) => [k, rgb(v)]));
  const figure = live(root, data, { side: data.side, pattern: data.pattern, token: data.token });
  const { state, change } = figure, said = (number) => number.toLocaleString("en");

  const panels = [1, 2].map((layers) => {
    const map = canvas(), told = note(), holder = div("vb-image vb-hearing");
    const element = labelled(`Heard after ${layers === 1 ? "one layer" : "two layers"}`, holder, told);
    return { layers, map, told, holder, element };
  });
  const costs = [0, 1].map(() => {
    const name = node("span"), number = node("span"), bar = node("i", { class: "vb-cost" });
    return { name, number, bar, element: div("vb-price", name, number, track(bar)) };
  });

  let cells = null, asked = null, built = 0;
  /** Buttons over the first map, one a token or one for a square of them. */
  function build(side) {
    built = side;
    const buttons = Math.min(side, MOST_BUTTONS), unit = `${100 / buttons}%`;
    const token = (row, column) => moved(row * buttons + column, buttons, side);
    cells = grid({
      rows: buttons, columns: buttons, control: "token", label: "token that asks",
      name: (...cell) => `token in ${inWords(token(...cell), side)}`,
      pick: (...cell) => change({ token: token(...cell) }),
    });
    asked = frame(buttons, buttons);
    const lines = node("i", { class: "vb-cut", style: `background-size: ${unit} ${unit}` });
    panels.forEach(({ holder, map }, i) => holder.replaceChildren(
      map, ...(i ? [lines, asked.element] : [cells.element])));
  }

  function draw({ side, pattern, token }) {
    const tokens = side * side;
    if (built !== side) build(side);
    const heard = panels.map(({ layers, map, told }) => {
      const set = Array.from({ length: tokens }, (_, other) =>
        hears(pattern, side, block, token, other, layers));
      paint(map, side, side, (other) =>
        !set[other] ? shades.none : shades[thin[pattern] ? "mixed" : "own"]);
      told.textContent = `${said(set.filter(Boolean).length)} of ${said(tokens)}, ` +
        (thin[pattern] ?? "each with its own weight");
      return set;
    });
    const [row, column] = place(token, side);
    const buttons = Math.min(side, MOST_BUTTONS), wide = side / buttons;
    const cell = Math.floor(row / wide) * buttons + Math.floor(column / wide);
    cells.choose(cell);
    asked.put(cell);

    const cost = pairs(pattern, side, data), all = tokens * tokens;
    [["all pairs", all], [names[pattern], cost]].forEach(([name, number], i) => {
      costs[i].name.textContent = name;
      costs[i].number.textContent = said(number);
      costs[i].bar.style.width = `${Math.min(100, 100 * number / Math.max(all, cost))}%`;
    });
    const end = side - 1, opposite = (end - row) * side + end - column;
    const corner = [row, column].every((x) => x === 0 || x === end);
    const through = Object.keys(names).filter((kind) =>
      hears(kind, side, block, token, opposite, 2));
    const least = Math.min(...through.map((kind) => pairs(kind, side, data)));
    const reached = corner && through.includes(pattern) && cost === least;
    const who = `Row ${row + 1}, column ${column + 1}`;
    const far = heard[1][opposite] ? "hears" : "never hears";
    const share = cost < all ? `${(100 * cost / all).toPrecision(2)} % of all pairs`
      : cost > all ? `${(cost / all).toPrecision(2)} times all pairs` : "as many as all pairs";
    return {
      says: `${who} ${far} the token opposite${heard[1][opposite] ? " after two layers" : ""}. ` +
        `A layer computes ${said(cost)} pairs, ${share}. `,
      reached: reached && `at ${side} × ${side} nothing cheaper carries word from corner to corner.`,
      told: { heard, cost },
    };
  }

  figure.stage(draw,
    div("vb-controls",
      figure.slider("side", "Grid", {
        max: sides.length - 1, at: () => sides.indexOf(state.side),
        part: (i) => ({ side: sides[i], token: moved(state.token, state.side, sides[i]) }),
        tell: (i) => `${sides[i]} × ${sides[i]} = ${said(sides[i] ** 2)} tokens`,
        "aria-label": "side of the grid",
      }),
      figure.select("pattern", "what a token reads", Object.entries(names)), figure.reset),
    div("vb-pair vb-ears", ...panels.map(({ element }) => element)),
    node("div", { class: "vb-label vb-where" }, "What one layer computes, in pairs"),
    ...costs.map(({ element }) => element));
}
