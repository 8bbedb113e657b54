import { node, set } from "../parts/page.js";
import { bytes } from "../parts/numbers.js";
import { div, photo, term, word } from "../parts/parts.js";
import { live } from "../parts/live.js";

const WIDE = 320, TALL = 190, LEFT = 26, TOP = 8, FOOT = 40;

/** The area under points at even steps from 0 to 1, by trapezoids. */
export const area = (points) =>
  (points.reduce((a, b) => a + b) - (points[0] + points.at(-1)) / 2) / (points.length - 1);

/** The first step at which the class has less than half of the probability; -1 for none. */
export const firstUnderHalf = (points) => points.findIndex((p) => p < 0.5);

/**
 * @param {HTMLElement} root
 * @param {{images: string[], labels: string[], names: string[], means: number[][],
 *   size: [number, number], grid: [number, number], places: string, scores: string,
 *   areas: number[][], rival: string, truth: string, task: string,
 *   start: {image: number, explanation: string, removed: number}}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, cells = rows * columns, count = data.images.length;
  const places = bytes(data.places), scores = bytes(data.scores);
  const of = (table, length, name, image) =>
    table.subarray((name * count + image) * length, (name * count + image + 1) * length);
  const curveOf = (name, image) => Array.from(of(scores, cells + 1, name, image), (byte) => byte / 255);
  const figure = live(root, data, data.start);

  const chooser = figure.chooser("image", "image", data.labels, { face: (i) => photo(data.images[i]) });
  const select = figure.select("explanation", "explanation", data.names.map((name) => [name, name]));
  const slider = figure.slider("removed", "Taken away",
    { max: cells, tell: (removed) => `${removed} of ${cells} cells` });

  const still = photo();
  const tiles = Array.from({ length: cells }, () => node("i"));
  const left = node("div", { class: "vb-image vb-taken",
    style: `aspect-ratio: ${data.size[1]} / ${data.size[0]}` }, still,
  node("div", { class: "vb-grid", "aria-hidden": "true",
    style: `--columns: ${columns}; --rows: ${rows}` }, ...tiles));

  const x = (step) => LEFT + WIDE * step / cells, y = (p) => TOP + TALL * (1 - p);
  const line = (points) => points.map((p, i) => `${x(i).toFixed(1)},${y(p).toFixed(1)}`).join(" ");
  const filled = node("svg:polygon", { class: "vb-area" });
  const curves = data.names.map(() => node("svg:polyline", { class: "vb-curve" }));
  const chosen = node("svg:polyline", { class: "vb-curve vb-chosen" });
  const dot = node("svg:circle", { r: 6, class: "vb-dot vb-own" });
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

  const terms = [term("probability now"), term(), term()];

  function draw({ image, explanation, removed }) {
    const which = data.names.indexOf(explanation), order = of(places, cells, which, image);
    const points = curveOf(which, image);
    const areaOf = (name) => data.areas[data.names.indexOf(name)][image];
    set(still, { src: data.images[image], alt: data.labels[image] });
    const mean = data.means[image], colour = mean.length === 1 ? [mean[0], mean[0], mean[0]] : mean;
    tiles.forEach((tile, i) => {
      const taken = order[i] < removed;
      tile.style.background = taken ? `rgb(${colour})` : "";
      tile.classList.toggle("vb-gone", taken);
    });
    curves.forEach((curve, i) => set(curve, { points: line(curveOf(i, image)) }));
    set(chosen, { points: line(points) });
    set(filled, { points: `${x(0)},${y(0)} ${line(points)} ${x(cells)},${y(0)}` });
    set(dot, { cx: x(removed), cy: y(points[removed]) });
    terms[0].say(points[removed].toFixed(2));
    [explanation, data.truth].forEach((name, i) =>
      terms[i + 1].say(areaOf(name).toFixed(3), `area, ${name}`));
    const half = firstUnderHalf(points);
    const reached = explanation === data.rival && areaOf(data.rival) < areaOf(data.truth) &&
      `${data.rival} ${areaOf(data.rival).toFixed(3)}, ${data.truth} ` +
      `${areaOf(data.truth).toFixed(3)}. Here deletion sets ${data.rival} before ${data.truth}.`;
    const says = half < 0 ? "The class keeps more than half of the probability to the end. "
      : half === 0 ? "The class has less than half of the probability from the start. "
        : `The class first falls below one half after ${half} of ${cells} cells. `;
    const taken = order.reduce((sum, at) => sum + (at < removed), 0);
    return { says, reached, told: { points, taken } };
  }

  figure.stage(draw, chooser, div("vb-controls", select, slider, figure.reset),
    div("vb-deletion", left, plot), div("vb-terms", ...terms.map(({ element }) => element)));
}
