import { node } from "./page.js";
import { between, paint, rgb } from "./paint.js";
import { bytes, inWords, place, signed } from "./numbers.js";
import { canvas, div, frame, image, labelled, note } from "./parts.js";
import { live } from "./live.js";

/** The cell that mirrors another one from left to right. */
export function mirrored(cell, columns) {
  const [row, column] = place(cell, columns);
  return row * columns + columns - 1 - column;
}

/**
 * @param {HTMLElement} root
 * @param {{rows: number, columns: number, cuts: number, names: string[], place: number,
 *   keep: number, likeness: string, stops: string[], task: string}} data
 *   `likeness`: one byte a number, 100 cosine + 100: "tables cuts places places".
 */
export function render(root, data) {
  const { rows, columns, cuts, names } = data, places = rows * columns;
  const steps = bytes(data.likeness), stops = data.stops.map(rgb);
  const figure = live(root, data, { place: data.place, keep: data.keep }), { state } = figure;
  const cosine = (table, other) => {
    const cut = table * cuts + state.keep - 1;
    return steps[(cut * places + state.place) * places + other] / 100 - 1;
  };

  const cells = figure.cells("place", rows, columns, { what: "place" });
  const panels = names.map((name, i) => {
    const map = canvas(), told = note();
    const asked = frame(rows, columns), mirror = frame(rows, columns, "vb-asked vb-mirror");
    const element = labelled(name,
      image(rows, columns, map, mirror.element, i ? asked.element : cells.element), told);
    return { map, told, asked, mirror, element };
  });

  function draw({ place: asking }) {
    const other = mirrored(asking, columns), column = asking % columns;
    const found = panels.map(({ map, told, asked, mirror }, table) => {
      paint(map, rows, columns, (cell) => between(stops, (1 + cosine(table, cell)) / 2));
      asked.put(asking);
      mirror.put(other);
      const value = cosine(table, other);
      told.textContent = `mirror image: ${signed(value)}`;
      return value;
    });
    const [learned, ...nulls] = found;
    const edge = column === 0 || column === columns - 1;
    const reached = edge && learned > 0.5 && nulls.every((value) => value < 0.3) &&
      "with these waves the mirror is learned, and not the wave's own.";
    const says = `R${inWords(asking, columns).slice(1)} and its mirror image, column ${other % columns + 1}: ` +
      `${signed(learned)} in the learned table, ` +
      `${nulls.map((value) => signed(value)).join(" and ")} in what learned nothing. `;
    return { says, reached, told: { found } };
  }

  figure.stage(draw,
    div("vb-controls",
      figure.slider("keep", "Waves", { min: 1, max: cuts, tell: (keep) => `up to ${keep} of ${cuts}`,
        "aria-label": "waves kept, down and across" }), figure.reset),
    node("div", { class: "vb-trio vb-tables", style: `--panels: ${names.length}` },
      ...panels.map(({ element }) => element)),
    note("Yellow: alike. Dark blue: opposite. Dashed: the mirror image."));
}
