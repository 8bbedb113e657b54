import { node, stage, paint, grid, rgb } from "./shared.js";

const MOST_BUTTONS = 16; // a side; on a larger grid a button stands for several tokens

/** Does token `other` reach token `one` in this many layers? Tokens are counted row by row. */
export function hears(kind, side, block, one, other, layers) {
  const [row, column] = [Math.floor(one / side), one % side];
  const [r, c] = [Math.floor(other / side), other % side];
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

/**
 * @param {HTMLElement} root
 * @param {{sides: number[], side: number, pattern: string, token: number, block: number,
 *   keys: number, features: number, names: Record<string, string>, thin: Record<string, string>,
 *   colors: {own: string, mixed: string, none: string}, task: string}} data
 */
export function render(root, data) {
  const { sides, block, names, thin } = data;
  const shades = Object.fromEntries(Object.entries(data.colors).map(([k, v]) => [k, rgb(v)]));
  const start = { side: data.side, pattern: data.pattern, token: data.token };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };

  const panels = [1, 2].map((layers) => ({
    layers, canvas: node("canvas", { "aria-hidden": "true" }), told: node("p", { class: "vb-note" }),
    frame: node("div", { class: "vb-picture vb-hearing" }),
  }));
  const chooser = node("select", {
    "data-control": "pattern", "aria-label": "what a token reads",
    onchange: () => change({ pattern: chooser.value }),
  }, ...Object.entries(names).map(([value, name]) => node("option", { value }, name)));
  const amount = node("span", { class: "vb-amount" });
  const slider = node("input", {
    type: "range", min: 0, max: sides.length - 1, step: 1, "data-control": "side",
    "aria-label": "side of the grid", oninput: () => resize(sides[slider.value]),
  });
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(start),
  }, "Reset");
  const costs = [0, 1].map(() => ({
    name: node("span"), number: node("span"), bar: node("i", { class: "vb-cost" }),
  }));
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  /** The token at the same place of another grid: a corner stays a corner. */
  function resize(side) {
    const place = [Math.floor(state.token / state.side), state.token % state.side];
    const [row, column] = place.map((x) => Math.round(x * (side - 1) / (state.side - 1)));
    change({ side, token: row * side + column });
  }

  const lines = node("i", { class: "vb-cut" }), asked = node("i", { class: "vb-asked" });
  let cells = null, built = 0;
  /** Buttons over the first picture, one a token or one for a square of them. */
  function build(side) {
    built = side;
    const buttons = Math.min(side, MOST_BUTTONS);
    const place = (x) => Math.round(x * (side - 1) / (buttons - 1));
    cells = grid({
      rows: buttons, columns: buttons, control: "token", label: "token that asks",
      name: (row, column) => `token in row ${place(row) + 1}, column ${place(column) + 1}`,
      pick: (row, column) => change({ token: place(row) * side + place(column) }),
    });
    panels.forEach(({ frame, canvas }, i) => frame.replaceChildren(
      canvas, ...(i ? [lines, asked] : [cells.element])));
    const unit = `${100 / buttons}%`;
    lines.style.backgroundSize = `${unit} ${unit}`;
    Object.assign(asked.style, { width: unit, height: unit });
  }

  function update() {
    const { side, pattern, token } = state, tokens = side * side;
    if (built !== side) build(side);
    const [row, column] = [Math.floor(token / side), token % side];
    const heard = panels.map(({ layers, canvas, told }) => {
      const set = Array.from({ length: tokens }, (_, other) =>
        hears(pattern, side, block, token, other, layers));
      paint(canvas, side, side, (r, c) => !set[r * side + c] ? shades.none
        : shades[thin[pattern] ? "mixed" : "own"]);
      const count = set.filter(Boolean).length;
      told.textContent = `${count.toLocaleString("en")} of ${tokens.toLocaleString("en")}, ` +
        (thin[pattern] ?? "each with its own weight");
      return set;
    });
    const buttons = Math.min(side, MOST_BUTTONS), wide = side / buttons;
    const [top, left] = [row, column].map((x) => Math.floor(x / wide));
    cells.choose(top * buttons + left);
    Object.assign(asked.style, { top: `${100 * top / buttons}%`, left: `${100 * left / buttons}%` });

    const cost = pairs(pattern, side, data), all = tokens * tokens;
    const told = [["all pairs", all], [names[pattern], cost]];
    costs.forEach(({ name, number, bar }, i) => {
      name.textContent = told[i][0];
      number.textContent = told[i][1].toLocaleString("en");
      bar.style.width = `${Math.min(100, 100 * told[i][1] / Math.max(all, cost))}%`;
    });
    chooser.value = pattern;
    slider.value = sides.indexOf(side);
    amount.textContent = `${side} × ${side} = ${tokens.toLocaleString("en")} tokens`;
    slider.setAttribute("aria-valuetext", amount.textContent);

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
    readout.replaceChildren(
      `${who} ${far} the token opposite${heard[1][opposite] ? " after two layers" : ""}. ` +
      `A layer computes ${cost.toLocaleString("en")} pairs, ${share}. `,
      !reached ? "" : node("strong", {}, `✓ Reached: at ${side} × ${side} nothing cheaper ` +
        "carries word from corner to corner."));
    Object.assign(root, { heard, cost });
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider" }, node("span", {}, "Grid"), slider, amount),
      chooser, reset),
    node("div", { class: "vb-pair vb-ears" }, ...panels.map(({ layers, frame, told }) =>
      node("div", {}, node("div", { class: "vb-label" },
        `Heard after ${layers === 1 ? "one layer" : "two layers"}`),
      frame, told))),
    node("div", { class: "vb-label vb-where" }, "What one layer computes, in pairs"),
    ...costs.map(({ name, number, bar }) => node("div", { class: "vb-price" }, name, number,
      node("span", { class: "vb-track" }, bar))),
    readout);
  update();
}
