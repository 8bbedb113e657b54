import { node, set } from "../parts/page.js";
import { clamp } from "../parts/numbers.js";
import { div, drag } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { address, linkTo, restored, stated } from "../parts/address.js";

const PHONE = 560; // px of the figure; from there on the wider drawing
const KNOB = 13, FINGER = 22; // px: the knob's radius, and what a finger may touch
const HALF_WIDE = 48, TOLD_WIDE = 24; // px: half of the words at the mark of the task and at a rung
const FAINT = 0.4; // opacity of all rungs but the last

/** The place of the number that is nearest. */
export const closest = (numbers, to) => numbers.reduce((best, number, i) =>
  (Math.abs(number - to) < Math.abs(numbers[best] - to) ? i : best), 0);

/** Where a gradient stands between the ends of a logarithmic axis, 0 to 1. */
export const along = (gradient, [low, high]) => (Math.log10(gradient) - low) / (high - low);

/** What a link says of a state, as far as it was measured. */
export function measuredState(text, { depths, names }) {
  const said = stated(text, {
    depth: [depths[0], depths.at(-1)], initialisation: [0, names.length - 1],
  });
  if (!depths.includes(said.depth)) delete said.depth;
  return said;
}

const written = (x, y, words, more) => node("svg:text", { class: "vb-told", x, y, ...more }, words);
const line = (kind, x1, x2, y1, y2) => node("svg:line", { class: kind, x1, x2, y1, y2 });

/**
 * @param {HTMLElement} root
 * @param {{depths: number[], names: string[], norms: [string, string], axis: [number, number],
 *   ticks: [number, string][], goals: ?number[], measured: string, layouts: object[],
 *   gradients: {mean: number[], low: number[], high: number[], told: string}[][][],
 *   start: {depth: number, initialisation: number}, task: string}} data
 *   `gradients` by initialisation, norm and depth.
 */
export function render(root, data) {
  const { depths, names, norms } = data;
  const figure = live(root, data, data.start), { state, change } = figure;
  let shown; // the layout

  const choice = names.length > 1 && figure.chooser("initialisation", "weights at the start", names,
    { face: (i) => names[i], kind: "vb-choice" });
  const link = node("a", { class: "vb-link" }, "Link to this view");
  const field = node("svg:g");
  const number = node("svg:text", { class: "vb-told", y: 4, "text-anchor": "middle",
    "font-weight": 700 });
  const handle = node("svg:g", { class: "vb-handle", tabindex: 0, role: "slider",
    "data-control": "depth", "aria-label": "depth of both encoders", "aria-orientation": "vertical",
    "aria-valuemin": depths[0], "aria-valuemax": depths.at(-1) },
    node("svg:circle", { r: FINGER, fill: "transparent" }),
    node("svg:circle", { r: KNOB, class: "vb-budget-grip vb-ring" }), number);
  const drawing = node("svg:svg", { class: "vb-ladder" }, field, handle);
  const to = (i) => change({ depth: depths[clamp(i, 0, depths.length - 1)] });
  drag(drawing, {
    handle,
    move: (_, down) => to(closest(depths, (shown.bottom - down * shown.size[1]) / shown.pitch)),
    walk: (down, right) => to(depths.indexOf(state.depth) + right - down),
  });

  const middle = (block) => shown.bottom - (block - 0.5) * shown.pitch;

  function panel(which, depth, initialisation) {
    const { top, bottom, bar } = shown, [left, right] = shown.panels[which];
    const spans = data.gradients[initialisation][which], span = spans[depths.indexOf(depth)];
    const edge = bottom - depth * shown.pitch, width = right - left;
    const at = (gradient) => left + along(gradient, data.axis) * width;
    const half = at(spans[0].mean.at(-1) / 2);
    const curve = spans.map(({ mean }, i) => [at(mean.at(-1)), middle(depths[i])]);
    return [
      written(left, 16, norms[which], { "font-weight": 700 }),
      node("svg:rect", { class: "vb-frame", x: left, y: top, width, height: bottom - top }),
      node("svg:rect", { class: "vb-over-budget", x: left, y: top, width,
        height: Math.max(edge - top, 0) }),
      ...data.ticks.flatMap(([place, words]) => {
        const x = left + (place - data.axis[0]) / (data.axis[1] - data.axis[0]) * width;
        return [line("vb-line", x, x, top, bottom),
          written(x, bottom + 15, words, { "text-anchor": "middle" })];
      }),
      ...span.mean.flatMap((mean, i) => [
        node("svg:rect", { class: `vb-rung vb-norm${which}`, x: left, y: middle(i + 1) - bar / 2,
          width: at(mean) - left, height: bar, "fill-opacity": i + 1 === depth ? 1 : FAINT }),
        span.low[i] < span.high[i]
          ? line("vb-seeds-span", at(span.low[i]), at(span.high[i]), middle(i + 1), middle(i + 1))
          : "",
      ]),
      node("svg:polyline", { class: "vb-tops", points: curve.join(" ") }),
      ...curve.map(([cx, cy]) => node("svg:circle", { class: "vb-top-dot", cx, cy, r: 2.5 })),
      line("vb-half", half, half, top - 16, bottom),
      written(clamp(half, left + HALF_WIDE, right - HALF_WIDE), top - 20,
        `half of depth ${depths[0]}`, { "text-anchor": "middle" }),
      written(clamp(at(span.mean.at(-1)), left + TOLD_WIDE, right - TOLD_WIDE), edge - 7, span.told,
        { "text-anchor": "middle", "font-weight": 700 }),
    ];
  }

  function draw({ depth, initialisation }) {
    const { size: [width, height], top, bottom, panels: [[first], [, last]], knob } = shown;
    const edge = bottom - depth * shown.pitch;
    set(drawing, { viewBox: `0 0 ${width} ${height}` });
    field.replaceChildren(
      ...shown.shown.map((block) =>
        written(first - 6, middle(block) + 4, block, { "text-anchor": "end" })),
      written(2, top - 8, "block"),
      written(last, height - 6, `${data.measured}, logarithmic`, { "text-anchor": "end" }),
      written(knob, 28, "depth", { "text-anchor": "middle" }),
      ...panel(0, depth, initialisation), ...panel(1, depth, initialisation),
      line("vb-limit", first, last, edge, edge));
    number.textContent = depth;
    set(handle, { transform: `translate(${knob} ${edge})`, "aria-valuenow": depth,
      "aria-valuetext": `${depth} ${depth === 1 ? "block" : "blocks"}` });
    const named = { depth, initialisation };
    linkTo(link, address(root, "gradients", named));

    const lasts = data.gradients[initialisation].map((spans) => {
      const now = spans[depths.indexOf(depth)];
      return { told: now.told, share: now.mean.at(-1) / spans[0].mean.at(-1), of: spans[0].told };
    });
    const says = lasts.map(({ told, share, of }, i) =>
      `${norms[i]} ${told}, which is ${share.toFixed(2)} of ${of} at depth ${depths[0]}`);
    const [pre, post] = lasts.map(({ share }) => share.toFixed(2));
    return {
      says: `Depth ${depth}, ${names[initialisation]}. Gradient of the last block: ` +
        `${says.join("; ")}. A gradient that falls as 1/√depth would have a share of ` +
        `${Math.sqrt(depths[0] / depth).toFixed(2)}. `,
      reached: depth === data.goals[initialisation] &&
        `at depth ${depth} Pre-LN's last block has ${pre} of the gradient at depth ${depths[0]}, ` +
        `and Post-LN's has ${post} of its own.`,
      told: { shares: lasts.map(({ share }) => share) },
      named,
    };
  }

  const fits = () => data.layouts[root.clientWidth && root.clientWidth < PHONE ? 1 : 0];
  shown = fits();
  figure.stage(draw,
    div("vb-controls vb-start",
      choice ? div("vb-prefix", node("span", {}, "Weights start as"), choice) : "",
      figure.reset, link),
    drawing);
  restored(root, "gradients", (text) => measuredState(text, data), change);
  new ResizeObserver(() => {
    if (fits() === shown) return;
    shown = fits();
    change({});
  }).observe(root);
}
