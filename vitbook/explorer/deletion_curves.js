import { node, set, stage, bytes, grid } from "./shared.js";

const WIDE = 320, TALL = 190, LEFT = 26, TOP = 8, FOOT = 40;

/** The area under points at even steps from 0 to 1, by trapezoids. */
export const area = (points) =>
  (points.reduce((a, b) => a + b) - (points[0] + points.at(-1)) / 2) / (points.length - 1);

/**
 * @param {HTMLElement} root
 * @param {{images: string[], labels: string[], names: string[], means: number[][],
 *   size: [number, number], grid: [number, number], places: string, scores: string,
 *   areas: number[][], rival: string, truth: string, task: string,
 *   start: {picture: number, explanation: string, removed: number}}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, cells = rows * columns, count = data.images.length;
  const places = bytes(data.places), scores = bytes(data.scores);
  const placesOf = (name, picture) =>
    places.subarray((name * count + picture) * cells, (name * count + picture + 1) * cells);
  const curveOf = (name, picture) =>
    Array.from(scores.subarray((name * count + picture) * (cells + 1),
      (name * count + picture + 1) * (cells + 1)), (byte) => byte / 255);
  const state = { ...data.start };
  const change = (part) => { Object.assign(state, part); update(); };

  const chooser = grid({
    rows: 1, columns: count, control: "picture", label: "picture",
    name: (_, i) => data.labels[i], pick: (_, picture) => change({ picture }),
  });
  chooser.element.classList.add("vb-chooser");
  chooser.cells.forEach((cell, i) => cell.append(node("img", { src: data.images[i], alt: "" })));
  const select = node("select", {
    "data-control": "explanation", "aria-label": "explanation",
    onchange: () => change({ explanation: select.value }),
  }, ...data.names.map((name) => node("option", { value: name }, name)));
  const amount = node("span", { class: "vb-amount" });
  const input = node("input", {
    type: "range", min: 0, max: cells, step: 1, "data-control": "removed",
    oninput: () => change({ removed: Number(input.value) }),
  });
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(data.start),
  }, "Reset");

  const image = node("img", { alt: "", draggable: "false" });
  const gone = node("div", { class: "vb-grid", "aria-hidden": "true",
    style: `--columns: ${columns}; --rows: ${rows}` });
  const tiles = Array.from({ length: cells }, () => node("i"));
  gone.append(...tiles);
  const left = node("div", { class: "vb-picture vb-taken",
    style: `aspect-ratio: ${data.size[1]} / ${data.size[0]}` }, image, gone);

  const x = (step) => LEFT + WIDE * step / cells, y = (p) => TOP + TALL * (1 - p);
  const line = (points) => points.map((p, i) => `${x(i).toFixed(1)},${y(p).toFixed(1)}`).join(" ");
  const filled = node("svg:polygon", { class: "vb-area" });
  const curves = data.names.map(() => node("svg:polyline", { class: "vb-curve" }));
  const chosen = node("svg:polyline", { class: "vb-curve vb-chosen" });
  const dot = node("svg:circle", { r: 6, class: "vb-dot vb-own" });
  const word = (attributes, told) => node("svg:text", { class: "vb-tick vb-axis-word", ...attributes }, told);
  const plot = node("svg:svg", {
    viewBox: `0 0 ${LEFT + WIDE + 10} ${TOP + TALL + FOOT}`, "aria-hidden": "true",
  },
  node("svg:rect", { class: "vb-frame", x: LEFT, y: TOP, width: WIDE, height: TALL }),
  word({ x: LEFT - 6, y: TOP + 10, "text-anchor": "end" }, "1"),
  word({ x: LEFT - 6, y: TOP + TALL, "text-anchor": "end" }, "0"),
  word({ x: LEFT, y: TOP + TALL + 15 }, "nothing taken away"),
  word({ x: LEFT + WIDE, y: TOP + TALL + 15, "text-anchor": "end" }, "all"),
  word({ x: LEFT, y: TOP + TALL + 31 }, "up: probability of the class; grey: the others"),
  filled, ...curves, chosen, dot);

  const term = () => {
    const number = node("b"), name = node("span", { class: "vb-note" });
    return { number, name, element: node("div", {}, number, name) };
  };
  const terms = [term(), term(), term()];
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function update() {
    const { picture, explanation, removed } = state;
    const which = data.names.indexOf(explanation), order = placesOf(which, picture);
    const points = curveOf(which, picture);
    const areaOf = (name) => data.areas[data.names.indexOf(name)][picture];
    image.src = data.images[picture];
    image.alt = data.labels[picture];
    const mean = data.means[picture], colour = mean.length === 1 ? [mean[0], mean[0], mean[0]] : mean;
    tiles.forEach((tile, i) => {
      const taken = order[i] < removed;
      tile.style.background = taken ? `rgb(${colour})` : "";
      tile.classList.toggle("vb-gone", taken);
    });
    curves.forEach((curve, i) => set(curve, { points: line(curveOf(i, picture)) }));
    set(chosen, { points: line(points) });
    set(filled, { points: `${x(0)},${y(0)} ${line(points)} ${x(cells)},${y(0)}` });
    set(dot, { cx: x(removed), cy: y(points[removed]) });
    chooser.choose(picture);
    select.value = explanation;
    input.value = removed;
    input.setAttribute("aria-valuetext", amount.textContent = `${removed} of ${cells} cells`);
    [[points[removed].toFixed(2), "probability now"],
      [areaOf(explanation).toFixed(3), `area, ${explanation}`],
      [areaOf(data.truth).toFixed(3), `area, ${data.truth}`]].forEach(([number, name], i) => {
      terms[i].number.textContent = number;
      terms[i].name.textContent = name;
    });
    const half = points.findIndex((p) => p < 0.5);
    const reached = explanation === data.rival && areaOf(data.rival) < areaOf(data.truth);
    readout.replaceChildren(
      half < 0 ? "The class keeps more than half of the probability to the end. "
        : half === 0 ? "The class has less than half of the probability from the start. "
          : `The class first falls below one half after ${half} of ${cells} cells. `,
      !reached ? "" : node("strong", {}, `✓ Reached: ${data.rival} ${areaOf(data.rival).toFixed(3)}, ` +
        `${data.truth} ${areaOf(data.truth).toFixed(3)}. Deletion prefers what knows nothing of the model.`));
    Object.assign(root, { points, taken: order.reduce((sum, p) => sum + (p < removed), 0) }); // for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    chooser.element,
    node("div", { class: "vb-controls" }, select,
      node("label", { class: "vb-slider" }, node("span", {}, "Taken away"), input, amount), reset),
    node("div", { class: "vb-deletion" }, left, plot),
    node("div", { class: "vb-terms" }, ...terms.map(({ element }) => element)),
    readout);
  update();
}
