import { node, stage, paint, rgb, bytes, grid } from "./shared.js";

/** A cosine from -1 to 1 as a colour between the stops. */
export function shade(stops, cosine) {
  const place = (cosine + 1) / 2 * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((c, i) => c + (place - low) * (stops[low + 1][i] - c));
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
  const start = { place: data.place, keep: data.keep }, state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };
  const cosine = (table, other) => {
    const cut = table * cuts + state.keep - 1;
    return steps[(cut * places + state.place) * places + other] / 100 - 1;
  };
  const say = (number) => number.toFixed(2).replace("-", "−").replace("−0.00", "0.00");

  const cells = grid({
    rows, columns, control: "place", label: "place that asks",
    name: (row, column) => `place in row ${row + 1}, column ${column + 1}`,
    pick: (row, column) => change({ place: row * columns + column }),
  });
  const size = { width: `${100 / columns}%`, height: `${100 / rows}%` };
  const frame = (kind) => {
    const made = node("i", { class: kind });
    Object.assign(made.style, size);
    return made;
  };
  const panels = names.map((name, i) => {
    const canvas = node("canvas", { "aria-hidden": "true" });
    const note = node("p", { class: "vb-note" });
    const asked = frame("vb-asked"), mirror = frame("vb-asked vb-mirror");
    return {
      canvas, note, asked, mirror,
      element: node("div", {}, node("div", { class: "vb-label" }, name),
        node("div", { class: "vb-picture", style: `aspect-ratio: ${columns} / ${rows}` },
          canvas, mirror, ...(i ? [asked] : [cells.element])), note),
    };
  });
  const amount = node("span", { class: "vb-amount" });
  const slider = node("input", {
    type: "range", min: 1, max: cuts, step: 1, "data-control": "keep",
    "aria-label": "waves kept, down and across", oninput: () => change({ keep: +slider.value }),
  });
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(start),
  }, "Reset");
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function update() {
    const [row, column] = [Math.floor(state.place / columns), state.place % columns];
    const opposite = columns - 1 - column, other = row * columns + opposite;
    const found = panels.map(({ canvas, note, asked, mirror }, table) => {
      paint(canvas, rows, columns, (r, c) => shade(stops, cosine(table, r * columns + c)));
      Object.assign(asked.style, { top: `${100 * row / rows}%`, left: `${100 * column / columns}%` });
      Object.assign(mirror.style, {
        top: `${100 * row / rows}%`, left: `${100 * opposite / columns}%`,
      });
      const value = cosine(table, other);
      note.textContent = `mirror image: ${say(value)}`;
      return value;
    });
    cells.choose(state.place);
    slider.value = state.keep;
    amount.textContent = `up to ${state.keep} of ${cuts}`;
    slider.setAttribute("aria-valuetext", amount.textContent);

    const [learned, ...nulls] = found;
    const edge = column === 0 || column === columns - 1;
    const reached = edge && learned > 0.5 && nulls.every((value) => value < 0.3);
    readout.replaceChildren(
      `Row ${row + 1}, column ${column + 1} and its mirror image, column ${opposite + 1}: ` +
      `${say(learned)} in the learned table, ${nulls.map(say).join(" and ")} in what learned nothing. `,
      !reached ? "" : node("strong", {}, "✓ Reached: with these waves the mirror is learned, " +
        "and not the wave's own."));
    Object.assign(root, { found });
    root.dataset.state = `place=${state.place} keep=${state.keep}`;
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider vb-camera" }, node("span", {}, "Waves"), slider, amount), reset),
    node("div", { class: "vb-trio vb-tables", style: `--panels: ${names.length}` },
      ...panels.map(({ element }) => element)),
    node("p", { class: "vb-note" }, "Yellow: alike. Dark blue: opposite. Dashed: the mirror image."),
    readout);
  update();
}
