import { node, set } from "../parts/page.js";
import { clamp } from "../parts/numbers.js";
import { div, drag, note, term } from "../parts/parts.js";
import { live } from "../parts/live.js";

const MACS = 1, TIME = 2;
const KNOB = 20; // px from the field up to where the budget is held
const FAINT = 0.35; // opacity of models beyond the budget
const PHONE = 560; // px of the figure; from there on the wider drawing
// Where a name stands beside its dot, as in labels.py.
const SIDES = [[-8, -9, "end"], [11, 4, "start"], [-11, 4, "end"], [8, 18, "start"],
  [0, 22, "middle"], [0, -12, "middle"]];
const MEANING = "Steps: no other model is better at the same cost. Dashed ring: better than the " +
  "lit one at no more of some cost.";

/** The number that is nearest. */
export const nearest = (places, to) => places.reduce((best, place, i) =>
  (Math.abs(place - to) < Math.abs(places[best] - to) ? i : best), 0);

/** The first budget that a model meets. */
export const budgetFor = ({ order, counts }, model) =>
  counts.findIndex((count) => order.indexOf(model) < count);

/** Corners of the steps, from the first to the right edge. */
export const steps = (points, right) => [...points.flatMap(([x, y], i) =>
  i ? [[x, points[i - 1][1]], [x, y]] : [[x, y]]), [right, points.at(-1)[1]]].join(" ");

const told = (x, y, words, more) => node("svg:text", { class: "vb-told", x, y, ...more }, words);

/**
 * @param {HTMLElement} root
 * @param {{families: {name: string, color: string, shape: string}[],
 *   models: {name: string, family: number, accuracy: string, up: number, costs: string[],
 *     better: ?number[]}[],
 *   axes: {words: string, unit: string, ticks: [number, string][], across: number[],
 *     order: number[], spans: [number, number][], stairs: number[], told: string[],
 *     places: number[], bought: number[], counts: number[]}[],
 *   accuracies: [number, string][], layouts: object[], start: {axis: number, budget: number},
 *   task: string}} data
 */
export function render(root, data) {
  const { families, models, axes } = data;
  const figure = live(root, data, data.start), { state, change } = figure;
  let shown, pointed; // the layout, and the model that is pointed at

  const names = ["Parameters", "Multiply-adds", "Time"];
  const choice = figure.chooser("axis", "cost", names, {
    face: (i) => names[i], kind: "vb-choice",
    // What the lit model takes of the other cost is the budget there.
    part: (i) => i === state.axis ? {}
      : { axis: i, budget: budgetFor(axes[i], axes[state.axis].bought[state.budget]) },
  });

  const field = node("svg:g"), dots = node("svg:g");
  const line = node("svg:line", { class: "vb-limit" });
  const amount = node("svg:text", { class: "vb-told" });
  const handle = node("svg:g", { class: "vb-handle", tabindex: 0, role: "slider",
    "data-control": "budget", "aria-valuemin": 0 },
    node("svg:circle", { r: 19, fill: "transparent" }),
    node("svg:circle", { r: 9, class: "vb-budget-grip vb-ring" }));
  const drawing = node("svg:svg", { class: "vb-plot" }, field, line, dots, amount, handle);
  const to = (budget) =>
    change({ budget: clamp(budget, 0, axes[state.axis].places.length - 1) });
  drag(drawing, {
    handle,
    move: (across) => {
      const { size: [width], box: [left, , right] } = shown;
      to(nearest(axes[state.axis].places, (across * width - left) / (right - left)));
    },
    walk: (down, right) => to(state.budget + right - down),
  });

  const costs = axes.map(({ words }) => ({ ...term(words), better: note() }));
  const about = note();
  const describe = (i) => `${models[i].name}: ${[models[i].accuracy, ...models[i].costs].join(", ")}`;

  const place = (across, up) => {
    const [left, top, right, bottom] = shown.box;
    return [left + across * (right - left), bottom - up * (bottom - top)];
  };
  const dot = ({ color, shape }, [x, y], more) => node("svg:polygon", { points: shape, fill: color,
    class: "vb-dot", transform: `translate(${x} ${y})`, ...more });

  function drawField(axis, ats, budget) {
    const { size: [width, height], box: [left, top, right, bottom], legend } = shown;
    set(drawing, { viewBox: `0 0 ${width} ${height}` });
    field.replaceChildren(
      node("svg:rect", { class: "vb-frame", x: left, y: top, width: right - left,
        height: bottom - top }),
      node("svg:rect", { class: "vb-over-budget", x: budget, y: top, width: right - budget,
        height: bottom - top }),
      ...axis.spans.flatMap(([low, high], i) => low < high ? node("svg:line", { class: "vb-span",
        x1: place(low, 0)[0], x2: place(high, 0)[0], y1: ats[i][1], y2: ats[i][1] }) : []),
      node("svg:polyline", { class: "vb-stairs",
        points: steps(axis.stairs.map((i) => ats[i]), right) }),
      ...families.flatMap((family, i) => [dot(family, [left + legend[i][0] + 7, legend[i][1] + 10]),
        told(left + legend[i][0] + 18, legend[i][1] + 14, family.name)]),
      ...axis.ticks.map(([across, words]) =>
        told(place(across, 0)[0], bottom + 15, words, { "text-anchor": "middle" })),
      ...data.accuracies.map(([up, words]) =>
        told(left - 5, place(0, up)[1] + 4, words, { "text-anchor": "end" })),
      told(right, height - 4, `${axis.words}, ${axis.unit}`, { "text-anchor": "end" }));
  }

  function drawDots(ats, sides, within, best, rivals) {
    const ring = (i, kind, r) => node("svg:circle", { class: kind, cx: ats[i][0], cy: ats[i][1], r });
    dots.replaceChildren(
      ...families.map((family, number) => node("svg:g", { class: "vb-kin" },
        ...models.flatMap((model, i) => model.family !== number ? [] : dot(family, ats[i],
          { "data-model": i, opacity: within.has(i) ? 1 : FAINT })))),
      ...rivals.map((i) => ring(i, "vb-rival", 11)), ring(best, "vb-lit", 11),
      ...models.flatMap(({ name }, i) => {
        if (sides[i] < 0) return [];
        const [right, down, anchor] = SIDES[sides[i]];
        return told(ats[i][0] + right, ats[i][1] + down, name,
          { "text-anchor": anchor, "font-weight": i === best ? 700 : 400 });
      }));
  }

  function draw({ axis, budget }) {
    const chosen = axes[axis], best = chosen.bought[budget], model = models[best];
    const ats = models.map(({ up }, i) => place(chosen.across[i], up));
    const [at] = place(chosen.places[budget], 0), [left, top, right, bottom] = shown.box;
    const rivals = model.better.filter((i) => i !== null);
    drawField(chosen, ats, at);
    drawDots(ats, shown.sides[axis], new Set(chosen.order.slice(0, chosen.counts[budget])), best,
      rivals);
    const far = at > (left + right) / 2, high = top - KNOB;
    set(line, { x1: at, x2: at, y1: high, y2: bottom });
    set(amount, { x: at + (far ? -16 : 16), y: high + 4, "text-anchor": far ? "end" : "start",
      "font-weight": 700 }).textContent = `${chosen.told[budget]}: ${model.name}`;
    set(handle, { transform: `translate(${at} ${high})`, "aria-label": `budget of ${chosen.words}`,
      "aria-valuemax": chosen.places.length - 1, "aria-valuenow": budget,
      "aria-valuetext": chosen.told[budget] });
    costs.forEach(({ say, better }, i) => {
      say(model.costs[i], chosen.words === axes[i].words ? `${axes[i].words}, the budget`
        : axes[i].words);
      const other = models[model.better[i]];
      better.textContent = other ? `Better at no more: ${other.name}, ${other.accuracy}`
        : "Better at no more: none";
    });
    about.textContent = pointed === undefined ? MEANING : describe(pointed);
    const faster = models[model.better[TIME]];
    return {
      says: `Within ${axis === TIME ? "a time of " : ""}${chosen.told[budget]}` +
        `${axis === TIME ? "" : ` ${chosen.words}`} the best of ${chosen.counts[budget]} ` +
        `${chosen.counts[budget] === 1 ? "model" : "models"} is ${model.name}: ${model.accuracy}. `,
      reached: axis === MACS && faster && `${model.name} takes ${model.costs[TIME]} for an image; ` +
        `${faster.name} is better, ${faster.accuracy}, and takes ${faster.costs[TIME]}.`,
      told: { best: model.name },
    };
  }

  /** The dot under a pointer, within the size of a finger's tip. */
  function point({ clientX, clientY }) {
    const box = drawing.getBoundingClientRect(), unit = shown.size[0] / box.width;
    const at = [(clientX - box.left) * unit, (clientY - box.top) * unit];
    const far = models.map(({ up }, i) => {
      const [x, y] = place(axes[state.axis].across[i], up);
      return Math.hypot(x - at[0], y - at[1]);
    });
    const first = far.indexOf(Math.min(...far)), next = far[first] < 14 ? first : undefined;
    if (next === pointed) return;
    pointed = next;
    change({});
  }
  set(drawing, { onpointermove: point, onpointerdown: point });

  const fits = () => data.layouts[root.clientWidth && root.clientWidth < PHONE ? 1 : 0];
  shown = fits();
  figure.stage(draw,
    div("vb-controls vb-costs", node("span", {}, "Budget of"), choice, figure.reset), drawing, about,
    div("vb-terms", ...costs.map(({ element, better }) => div("", element, better))));
  new ResizeObserver(() => {
    if (fits() === shown) return;
    shown = fits();
    change({});
  }).observe(root);
}
