import { node, set, stage, rgb, paint, step, hold } from "./shared.js";

const SIDE = 300, TINT = 56, REACHED = 0.95;
const WORDS = [[0, "looks everywhere alike"], [0.9, "prefers a little"], [1.1, "as it stands"],
  [4, "prefers strongly"], [8, "nearly all on one"]];

/** The whole of attention for one query: scores, weights, and their mixture of the values. */
export function attend(query, keys, values, sharpness) {
  const scores = keys.map((key) =>
    sharpness * (query[0] * key[0] + query[1] * key[1]) / Math.sqrt(query.length));
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b);
  const weights = powers.map((power) => power / sum);
  return { scores, weights, output: mix(weights, values) };
}

const mix = (weights, rows) =>
  rows[0].map((_, i) => rows.reduce((sum, row, j) => sum + weights[j] * row[i], 0));
const signed = (number, digits) => number.toFixed(digits).replace("-", "−");
const describe = (sharpness) =>
  sharpness === 1 ? "the formula as it stands" : WORDS.find(([up]) => sharpness <= up)[1];

/** The corners of the convex hull, by gift wrapping. */
function hull(points) {
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

/** A square plane with unit lines; `place` maps a point to the picture, `point` maps back. */
function plane(label, reach) {
  const unit = SIDE / 2 / reach;
  const place = ([x, y]) => [SIDE / 2 + unit * x, SIDE / 2 - unit * y];
  const picture = node("svg:svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "vb-plane" });
  const pace = reach > 12 ? 10 : reach > 5 ? 2 : 1;
  for (let i = -Math.floor(reach / pace); i <= reach / pace; i++) {
    const [x, y] = place([i * pace, i * pace]);
    const kind = i ? "vb-line" : "vb-axis";
    picture.append(node("svg:path", { class: kind, d: `M${x} 0V${SIDE}M0 ${y}H${SIDE}` }));
    if (i && Math.abs(i * pace) < 0.93 * reach) {
      const mark = (at) => node("svg:text", { class: "vb-tick", ...at }, signed(i * pace, 0));
      picture.append(mark({ x: x + 3, y: SIDE - 4 }), mark({ x: 4, y: y - 3 }));
    }
  }
  const canvas = node("canvas", { "aria-hidden": "true" });
  const element = node("div", { class: "vb-panel" },
    node("div", { class: "vb-label" }, label), node("div", { class: "vb-square" }, canvas, picture));
  const point = (event) => {
    const box = picture.getBoundingClientRect();
    return [2 * reach * ((event.clientX - box.left) / box.width - 0.5),
      2 * reach * (0.5 - (event.clientY - box.top) / box.height)];
  };
  return { element, picture, canvas, place, point };
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
  const { keys, values, names, colors, goal } = data;
  const palette = colors.map(rgb);
  const state = { query: [...data.query], sharpness: 1 };

  const ask = plane("Where you ask", data.reach[0]);
  const get = plane("What you get", data.reach[1]);
  const [ox, oy] = ask.place([0, 0]);
  for (const [i, key] of keys.entries()) {
    const [x, y] = ask.place(key);
    ask.picture.append(
      node("svg:line", { x1: ox, y1: oy, x2: x, y2: y, stroke: colors[i], "stroke-width": 2 }),
      token([x, y], colors[i], names[i]));
  }
  const shaft = node("svg:line", { x1: ox, y1: oy, class: "vb-shaft" });
  const ring = node("svg:circle", { r: 9, class: "vb-ring" });
  const handle = node("svg:g", {
    class: "vb-handle", tabindex: 0, role: "slider", "data-control": "query",
    "aria-label": "query; the arrow keys move it", "aria-valuemin": -data.reach[0],
    "aria-valuemax": data.reach[0],
  }, node("svg:circle", { r: 24, fill: "transparent" }), ring,
    node("svg:text", { class: "vb-name", y: 26, "text-anchor": "middle" }, "query"));
  ask.picture.append(shaft, handle);

  const outline = hull(values).map((value) => get.place(value).join(" ")).join("L");
  const ties = colors.map((stroke) => node("svg:line", { stroke, "stroke-linecap": "round" }));
  const dot = node("svg:circle", { r: 8, class: "vb-ring" });
  get.picture.append(node("svg:path", { class: "vb-hull", d: `M${outline}Z` }), ...ties,
    ...values.map((value, i) => token(get.place(value), colors[i], names[i])), dot);

  const rows = names.map((name, i) => {
    const score = node("span"), bar = node("i", { style: `background: ${colors[i]}` });
    const weight = node("span");
    const element = node("div", { class: "vb-bar" }, node("b", {}, name), score,
      node("span", { class: "vb-track" }, bar), weight);
    return { element, score, bar, weight };
  });
  const sum = node("span");
  const table = node("div", { class: "vb-bars" },
    node("div", { class: "vb-bar vb-head" }, node("span", {}, "token"), node("span", {}, "score"),
      node("span", {}, "weight after the softmax"), node("span", {}, "")),
    ...rows.map((row) => row.element),
    node("div", { class: "vb-bar vb-head" }, node("span"), node("span"),
      node("span", {}, "sum of the weights"), sum));

  const slider = node("input", {
    type: "range", min: 0, max: 8, step: 0.1, value: 1, "data-control": "sharpness",
    oninput: () => { state.sharpness = Number(slider.value); update(); },
  });
  const amount = node("span", { class: "vb-amount" });
  const reset = node("button", {
    type: "button", "data-control": "reset",
    onclick: () => { state.query = [...data.query]; slider.value = state.sharpness = 1; update(); },
  }, "Reset");
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  const move = (point) => {
    const edge = 0.97 * data.reach[0];
    state.query = point.map((x) => Math.max(-edge, Math.min(edge, x)));
    update();
  };
  let dragging = false;
  set(ask.picture, {
    onpointerdown: (event) => {
      // A finger beside the handle scrolls the page; a tap there still brings the query.
      if (event.pointerType === "touch" && !handle.contains(event.target)) return;
      dragging = true;
      ask.picture.setPointerCapture(event.pointerId);
      move(ask.point(event));
    },
    onpointermove: (event) => dragging && move(ask.point(event)),
    onpointerup: () => (dragging = false),
    onpointercancel: () => (dragging = false),
    onclick: (event) => move(ask.point(event)),
  });
  hold(handle);
  handle.addEventListener("keydown", (event) => {
    const [down, right] = step(event) ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const pace = data.reach[0] / (event.shiftKey ? 10 : 40);
    move([state.query[0] + pace * right, state.query[1] - pace * down]);
  });

  let tinted = null;
  function tint() {
    if (tinted === state.sharpness) return;
    tinted = state.sharpness;
    const at = (i) => data.reach[0] * (2 * (i + 0.5) / TINT - 1);
    paint(ask.canvas, TINT, TINT, (row, column) =>
      mix(attend([at(column), -at(row)], keys, values, state.sharpness).weights, palette));
  }

  function update() {
    const { query, sharpness } = state;
    const { scores, weights, output } = attend(query, keys, values, sharpness);
    const mixed = `rgb(${mix(weights, palette).map(Math.round)})`;
    const [x, y] = ask.place(query);
    tint();
    set(shaft, { x2: x, y2: y });
    set(ring, { fill: mixed });
    set(handle, {
      transform: `translate(${x} ${y})`, "aria-valuenow": query[0].toFixed(2),
      "aria-valuetext": `${signed(query[0], 2)} across, ${signed(query[1], 2)} up`,
    });
    const [cx, cy] = get.place(output);
    set(dot, { cx, cy, fill: mixed });
    ties.forEach((tie, i) => {
      const [x2, y2] = get.place(values[i]);
      set(tie, { x1: cx, y1: cy, x2, y2, "stroke-width": 12 * weights[i] });
    });
    rows.forEach((row, i) => {
      row.score.textContent = signed(scores[i], 2);
      row.bar.style.width = `${100 * weights[i]}%`;
      row.weight.textContent = weights[i].toFixed(3);
    });
    sum.textContent = weights.reduce((a, b) => a + b).toFixed(2);
    amount.textContent = `× ${sharpness.toFixed(1)}: ${describe(sharpness)}`;
    slider.setAttribute("aria-valuetext", amount.textContent);
    const most = weights.indexOf(Math.max(...weights));
    const equal = Math.max(...weights) - Math.min(...weights) < 0.001;
    const reached = goal !== null && weights[goal] > REACHED;
    readout.replaceChildren(
      `Query (${query.map((c) => signed(c, 2)).join(", ")}) gets output ` +
      `(${output.map((c) => signed(c, 2)).join(", ")}), ` +
      (equal ? "an equal share from each. " : `most of it from ${names[most]}. `),
      reached ? node("strong", {}, `✓ Reached: ${names[goal]} has ${weights[goal].toFixed(2)}.`) : "");
    root.dataset.state = `query=${query.map((c) => c.toFixed(2))} sharpness=${sharpness.toFixed(1)}`;
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-pair" }, ask.element, get.element),
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider" }, node("span", {}, "Sharpness"), slider, amount), reset),
    table, readout);
  update();
}
