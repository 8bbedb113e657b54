import { node, set } from "../parts/page.js";
import { paint, rgb } from "../parts/paint.js";
import { argmax, clamp, signed, softmax } from "../parts/numbers.js";
import { canvas, div, drag, labelled, track } from "../parts/parts.js";
import { live } from "../parts/live.js";

const SIDE = 300, TINT = 56, REACHED = 0.95;
const WORDS = [[0, "looks everywhere alike"], [0.9, "prefers a little"], [1.1, "as it stands"],
  [4, "prefers strongly"], [8, "nearly all on one"]];

/** The whole of attention for one query: scores, weights, and their mixture of the values. */
export function attend(query, keys, values, sharpness) {
  const scores = keys.map((key) =>
    sharpness * (query[0] * key[0] + query[1] * key[1]) / Math.sqrt(query.length));
  const weights = softmax(scores);
  return { scores, weights, output: mix(weights, values) };
}

/** The point of a plane at a place in it, 0 to 1 from its left and from its top. */
export const pointAt = (across, down, reach) => [reach * (2 * across - 1), reach * (1 - 2 * down)];

export const mix = (weights, rows) =>
  rows[0].map((_, i) => rows.reduce((sum, row, j) => sum + weights[j] * row[i], 0));
const describe = (sharpness) =>
  sharpness === 1 ? "the formula as it stands" : WORDS.find(([up]) => sharpness <= up)[1];

/** The corners of the convex hull, by gift wrapping. */
export function hull(points) {
  const cross = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const start = points.reduce((a, b) => (b[0] < a[0] || (b[0] === a[0] && b[1] < a[1]) ? b : a));
  const corners = [];
  let at = start;
  do {
    corners.push(at);
    at = points.reduce((next, p) => (next === at || cross(at, next, p) < 0 ? p : next), points[0]);
  } while (at !== start && corners.length < points.length);
  return corners;
}

/** A square plane with unit lines; `place` maps a point to the drawing. */
function plane(label, reach) {
  const unit = SIDE / 2 / reach;
  const place = ([x, y]) => [SIDE / 2 + unit * x, SIDE / 2 - unit * y];
  const drawing = node("svg:svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "vb-plane" });
  const pace = reach > 12 ? 10 : reach > 5 ? 2 : 1;
  for (let i = -Math.floor(reach / pace); i <= reach / pace; i++) {
    const [x, y] = place([i * pace, i * pace]);
    const kind = i ? "vb-line" : "vb-axis";
    drawing.append(node("svg:path", { class: kind, d: `M${x} 0V${SIDE}M0 ${y}H${SIDE}` }));
    if (i && Math.abs(i * pace) < 0.93 * reach) {
      const mark = (at) => node("svg:text", { class: "vb-tick", ...at }, signed(i * pace, 0));
      drawing.append(mark({ x: x + 3, y: SIDE - 4 }), mark({ x: 4, y: y - 3 }));
    }
  }
  const tint = canvas(), element = labelled(label, div("vb-square", tint, drawing));
  element.classList.add("vb-panel");
  return { element, drawing, tint, place };
}

/** A labelled disc; the label stands on the side away from the origin. */
function token([x, y], color, name) {
  const left = x < SIDE / 2, above = y < SIDE / 2;
  return node("svg:g", {}, node("svg:circle", { cx: x, cy: y, r: 6, fill: color, class: "vb-dot" }),
    node("svg:text", { class: "vb-name", x: x + (left ? -10 : 10), y: y + (above ? -6 : 16),
      "text-anchor": left ? "end" : "start" }, name));
}

/**
 * @param {HTMLElement} root
 * @param {{keys: number[][], values: number[][], query: number[], names: string[],
 *   colors: string[], reach: [number, number], task: string, goal: ?number}} data
 */
export function render(root, data) {
  const { keys, values, names, colors, goal, reach } = data;
  const palette = colors.map(rgb);
  const figure = live(root, data, { query: data.query, sharpness: 1 }), { state, change } = figure;

  const ask = plane("Where you ask", reach[0]);
  const get = plane("What you get", reach[1]);
  const [ox, oy] = ask.place([0, 0]);
  for (const [i, key] of keys.entries()) {
    const [x, y] = ask.place(key);
    ask.drawing.append(
      node("svg:line", { x1: ox, y1: oy, x2: x, y2: y, stroke: colors[i], "stroke-width": 2 }),
      token([x, y], colors[i], names[i]));
  }
  const shaft = node("svg:line", { x1: ox, y1: oy, class: "vb-shaft" });
  const ring = node("svg:circle", { r: 9, class: "vb-ring" });
  const handle = node("svg:g", {
    class: "vb-handle", tabindex: 0, role: "slider", "data-control": "query",
    "aria-label": "query; the arrow keys move it", "aria-valuemin": -reach[0],
    "aria-valuemax": reach[0],
  }, node("svg:circle", { r: 24, fill: "transparent" }), ring,
    node("svg:text", { class: "vb-name", y: 26, "text-anchor": "middle" }, "query"));
  ask.drawing.append(shaft, handle);

  const outline = hull(values).map((value) => get.place(value).join(" ")).join("L");
  const ties = colors.map((stroke) => node("svg:line", { stroke, "stroke-linecap": "round" }));
  const dot = node("svg:circle", { r: 9, class: "vb-ring" });
  const output = node("svg:g", {}, dot,
    node("svg:text", { class: "vb-name", y: 26, "text-anchor": "middle" }, "output"));
  get.drawing.append(node("svg:path", { class: "vb-hull", d: `M${outline}Z` }), ...ties,
    ...values.map((value, i) => token(get.place(value), colors[i], names[i])), output);

  const rows = names.map((name, i) => {
    const score = node("span"), bar = node("i", { style: `background: ${colors[i]}` });
    const weight = node("span");
    const element = div("vb-bar", node("b", {}, name), score, track(bar), weight);
    return { element, score, bar, weight };
  });
  const sum = node("span");
  const head = (...words) => div("vb-bar vb-head", ...words.map((each) => node("span", {}, each)));
  const table = div("vb-bars", head("token", "score", "weight after the softmax", ""),
    ...rows.map((row) => row.element), head("", "", "sum of the weights", sum));

  const edge = 0.97 * reach[0];
  const move = (point) => change({ query: point.map((x) => clamp(x, -edge, edge)) });
  drag(ask.drawing, {
    handle, move: (...place) => move(pointAt(...place, reach[0])),
    walk: (down, right, { shiftKey }) => {
      const pace = reach[0] / (shiftKey ? 10 : 40), [x, y] = state.query;
      move([x + pace * right, y - pace * down]);
    },
  });

  let tinted = null;
  /** The colour of what each place of the plane would get; it changes with the sharpness alone. */
  function tint(sharpness) {
    if (tinted === sharpness) return;
    tinted = sharpness;
    const at = (i) => (i + 0.5) / TINT;
    paint(ask.tint, TINT, TINT, (_, row, column) =>
      mix(attend(pointAt(at(column), at(row), reach[0]), keys, values, sharpness).weights, palette));
  }

  function draw({ query, sharpness }) {
    const { scores, weights, output: got } = attend(query, keys, values, sharpness);
    const mixed = `rgb(${mix(weights, palette).map(Math.round)})`;
    const [x, y] = ask.place(query);
    tint(sharpness);
    set(shaft, { x2: x, y2: y });
    set(ring, { fill: mixed });
    set(handle, {
      transform: `translate(${x} ${y})`, "aria-valuenow": query[0].toFixed(2),
      "aria-valuetext": `${signed(query[0])} across, ${signed(query[1])} up`,
    });
    const [cx, cy] = get.place(got);
    set(dot, { fill: mixed });
    set(output, { transform: `translate(${cx} ${cy})` });
    ties.forEach((tie, i) => {
      const [x2, y2] = get.place(values[i]);
      set(tie, { x1: cx, y1: cy, x2, y2, "stroke-width": 12 * weights[i] });
    });
    rows.forEach((row, i) => {
      row.score.textContent = signed(scores[i]);
      row.bar.style.width = `${100 * weights[i]}%`;
      row.weight.textContent = weights[i].toFixed(3);
    });
    sum.textContent = weights.reduce((a, b) => a + b).toFixed(2);
    const most = names[argmax(weights)];
    const equal = Math.max(...weights) - Math.min(...weights) < 0.001;
    const said = (point) => point.map((c) => signed(c)).join(", ");
    return {
      says: `Query (${said(query)}) gets output (${said(got)}), ` +
        (equal ? "an equal share from each. " : `most of it from ${most}. `),
      reached: goal !== null && weights[goal] > REACHED &&
        `${names[goal]} has ${weights[goal].toFixed(2)}.`,
      named: { query: query.map((c) => c.toFixed(2)), sharpness: sharpness.toFixed(1) },
    };
  }

  figure.stage(draw,
    div("vb-pair", ask.element, get.element),
    div("vb-controls",
      figure.slider("sharpness", "Sharpness", { max: 8, step: 0.1,
        tell: (sharpness) => `× ${sharpness.toFixed(1)}: ${describe(sharpness)}` }), figure.reset),
    table);
}
