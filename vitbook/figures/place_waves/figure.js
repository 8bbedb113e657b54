import { node } from "../parts/page.js";
import { between, paint, rgb } from "../parts/paint.js";
import { bytes, inWords, place, signed } from "../parts/numbers.js";
import { canvas, div, frame, grid, image, label, labelled, note } from "../parts/parts.js";
import { live } from "../parts/live.js";

const FINE = 24; // pixels a side, of the picture of a wave

/** The cell that mirrors another one from left to right. */
export function mirrored(cell, columns) {
  const [row, column] = place(cell, columns);
  return row * columns + columns - 1 - column;
}

/** How often a wave is counted among n places: but for the mean and the fastest it goes both ways. */
const ways = (turns, n) => turns === 0 || 2 * turns === n ? 1 : 2;

/** What keeps some waves and takes the others out of a table of places: "places places". */
export function keeping(on, rows, columns) {
  const wide = Math.floor(columns / 2) + 1, places = rows * columns;
  const turn = (turns, by, n) => Math.cos(2 * Math.PI * turns * by / n) * ways(turns, n);
  const kernel = Array.from({ length: places }, (_, i) => {
    const [down, right] = place(i, columns);
    return on.reduce((sum, kept, wave) => {
      const [u, v] = place(wave, wide);
      return kept ? sum + turn(u, down, rows) * turn(v, right, columns) : sum;
    }, 0) / places;
  });
  return Array.from({ length: places }, (_, one) => Float64Array.from({ length: places }, (_, other) => {
    const [[r, c], [y, x]] = [place(one, columns), place(other, columns)];
    return kernel[((r - y + rows) % rows) * columns + (c - x + columns) % columns];
  }));
}

/** Cosines of the places of a table that keeps some waves, from the inner products of its places. */
export function likenessOf(products, kept) {
  const count = kept.length, times = (a, b) => a.map((row) => {
    const sums = new Float64Array(count);
    row.forEach((factor, k) => { for (let i = 0; i < count; i++) sums[i] += factor * b[k][i]; });
    return sums;
  });
  const left = times(times(kept, products), kept); // the projection is its own transpose
  const lengths = left.map((row, i) => Math.sqrt(Math.max(row[i], 0)));
  return left.map((row, i) => row.map((product, j) => product / (lengths[i] * lengths[j])));
}

/**
 * @param {HTMLElement} root
 * @param {{rows: number, columns: number, cuts: number, names: string[], place: number,
 *   keep: number, products: string, stops: string[], task: string}} data
 *   `products`: inner products of places, two bytes a number: "tables places places".
 */
export function render(root, data) {
  const { rows, columns, cuts, names } = data, places = rows * columns;
  const high = Math.floor(rows / 2) + 1, wide = Math.floor(columns / 2) + 1;
  const stored = new Int16Array(bytes(data.products).buffer), stops = data.stops.map(rgb);
  const products = names.map((_, table) => Array.from({ length: places }, (_, row) =>
    stored.subarray((table * places + row) * places, (table * places + row + 1) * places)));
  const slow = (most) => Array.from({ length: high * wide }, (_, wave) => Math.max(...place(wave, wide)) <= most);
  const figure = live(root, data, { place: data.place, on: slow(data.keep) }), { state, change } = figure;
  /** The most turns of a wave that is on, and whether all slower ones are on too. */
  const most = () => Math.max(0, ...state.on.map((on, wave) => on ? Math.max(...place(wave, wide)) : 0));
  const all = () => `${state.on}` === `${slow(most())}`;

  const named = (u, v) => u || v ? `frequency of ${u} cycles down, ${v} across` : "mean of all positions";
  const switches = grid({
    rows: high, columns: wide, control: "waves", choice: false, label: "frequencies; space turns one on or off",
    name: named,
    pick: (u, v) => change({ on: state.on.map((on, wave) => on !== (wave === u * wide + v)) }),
  });
  switches.element.classList.add("vb-switches");
  switches.cells.forEach((cell, wave) => {
    const face = canvas(), [u, v] = place(wave, wide);
    paint(face, FINE, FINE, (_, y, x) => Array(3).fill(
      128 + 110 * Math.cos(2 * Math.PI * u * y / FINE) * Math.cos(2 * Math.PI * v * x / FINE)));
    cell.append(face);
  });

  const cells = figure.cells("place", rows, columns, { what: "position" });
  const panels = names.map((name, i) => {
    const map = canvas(), words = note();
    const asked = frame(rows, columns), mirror = frame(rows, columns, "vb-asked vb-mirror");
    const element = labelled(name,
      image(rows, columns, map, mirror.element, i ? asked.element : cells.element), words);
    return { map, words, asked, mirror, element };
  });

  let known = {};
  function likeness(on) {
    if (known.key !== `${on}`) {
      const kept = keeping(on, rows, columns);
      known = { key: `${on}`, tables: products.map((table) => likenessOf(table, kept)) };
    }
    return known.tables;
  }

  function draw({ place: asking, on }) {
    const other = mirrored(asking, columns), column = asking % columns, none = !on.includes(true);
    switches.cells.forEach((cell, wave) => cell.setAttribute("aria-pressed", on[wave]));
    const tables = none ? null : likeness(on);
    const found = panels.map(({ map, words, asked, mirror }, table) => {
      paint(map, rows, columns, (cell) => none ? [128, 128, 128]
        : between(stops, Math.min(1, Math.max(0, (1 + tables[table][asking][cell]) / 2))));
      asked.put(asking);
      mirror.put(other);
      const value = none ? null : tables[table][asking][other];
      words.textContent = none ? "no direction" : `mirror image: ${signed(value)}`;
      return value;
    });
    const [learned, ...nulls] = found, edge = column === 0 || column === columns - 1;
    const reached = edge && !none && learned > 0.5 && nulls.every((value) => value < 0.3) &&
      "with these frequencies the mirror was learned: the controls have none.";
    const says = none ? "No frequency is on: every position has a vector of zeros, which has no direction. "
      : `R${inWords(asking, columns).slice(1)} and its mirror image, column ${other % columns + 1}: ` +
        `${signed(learned)} in the learned table, ` +
        `${nulls.map((value) => signed(value)).join(" and ")} in the controls. `;
    const bits = on.map(Number).join("");
    return { says, reached, told: { found }, named: { place: asking, keep: all() ? most() : bits } };
  }

  figure.stage(draw,
    div("vb-waves",
      div("", label("Frequencies that are kept"), switches.element),
      div("", div("vb-controls", figure.slider("keep", "Frequencies", { min: 0, max: cuts,
        at: most, part: (keep) => ({ on: slow(keep) }),
        tell: (keep) => all() ? `up to ${keep} of ${cuts}` : `${state.on.filter(Boolean).length} chosen`,
        "aria-label": "frequencies kept, down and across" }), figure.reset),
      note("Press a frequency to keep it or to take it out. A row further down has one cycle more down the grid, a " +
        "column further right one more across it. The flat square is the mean."))),
    node("div", { class: "vb-trio vb-tables", style: `--panels: ${names.length}` },
      ...panels.map(({ element }) => element)),
    note("Yellow: similar. Dark blue: opposite. Dashed: the mirror image."));
}
