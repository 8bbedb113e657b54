import { node, set } from "../parts/page.js";
import { div, drag, note, word } from "../parts/parts.js";
import { clamp } from "../parts/numbers.js";
import { live } from "../parts/live.js";
import { cutImage, networkDrawing } from "./network_drawing.js";

const EQUAL = 0.03; // so far apart costs may be that are called equal
const NEAR = 4; // px of a plane: of the networks so near to a pointer, the one most like the last

/** Parameters and multiply-adds of a Vision Transformer of plain blocks, queries without bias. */
export function count(depth, width, hidden, patch, { side, classes }) {
  const patches = (side / patch) ** 2, pixels = 3 * patch * patch;
  const tokens = patches + 1, matrices = 4 * width * width + 2 * width * hidden;
  const biases = width + hidden + width, norms = 4 * width;
  return {
    parameters: width + (pixels + 1) * width + depth * (matrices + biases + norms)
      + 2 * width + (width + 1) * classes,
    macs: patches * pixels * width + depth * (tokens * matrices + 2 * tokens * tokens * width)
      + classes * width,
    pairs: 2 * depth * tokens * tokens * width,
  };
}

/** Every network that the sliders can set, with what it counts in millions and billions. */
export function allNetworks(limits, patch, network) {
  const [depths, widths, ratios] = ["depth", "width", "ratio"].map((name) => {
    const [low, high, step] = limits[name];
    return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);
  });
  return depths.flatMap((depth) => widths.flatMap((width) => ratios.map((ratio) => {
    const { parameters, macs } = count(depth, width, ratio * width, patch, network);
    return { depth, width, ratio, millions: parameters / 1e6, billions: macs / 1e9 };
  })));
}

/**
 * The network under a pointer: of those within `near` of it the one most like the last one, else the
 * nearest. `far(network)` is how far one lies from the pointer.
 */
export function under(networks, far, last, limits, near = NEAR) {
  const change = (each) => Object.entries(limits).reduce((sum, [name, [low, high]]) =>
    sum + ((each[name] - last[name]) / (high - low)) ** 2, 0);
  let best = null, least = [Infinity, Infinity];
  for (const each of networks) {
    const away = far(each), rank = [Math.max(away, near), away > near ? 0 : change(each)];
    if (rank[0] < least[0] || (rank[0] === least[0] && rank[1] < least[1])) [best, least] = [each, rank];
  }
  return best;
}

/** A plane of parameters in millions and multiply-adds in billions; what lies outside is cut. */
function plane({ x_ticks, y_ticks }, { size, inset }) {
  const x = [x_ticks[0], x_ticks.at(-1)], y = [y_ticks[0], y_ticks.at(-1)];
  const [width, height] = size, [left, top, right, bottom] = inset;
  const wide = width - left - right, tall = height - top - bottom;
  const across = (value) => (value - x[0]) / (x[1] - x[0]) * wide;
  const down = (value) => (y[1] - value) / (y[1] - y[0]) * tall;
  const field = node("svg:svg", {
    x: left, y: top, width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`,
  });
  const drawing = node("svg:svg", { viewBox: `0 0 ${width} ${height}`, class: "vb-counted" });
  for (const tick of x_ticks) {
    drawing.append(word({
      x: left + across(tick), y: height - bottom + 14, "text-anchor": "middle",
    }, tick));
  }
  for (const tick of y_ticks) {
    drawing.append(word({ x: left - 5, y: top + down(tick) + 4, "text-anchor": "end" }, tick));
  }
  drawing.append(
    word({ x: left + wide, y: height - 3, "text-anchor": "end" }, "parameters, M"),
    word({ x: 0, y: 11 }, "multiply-adds, G"), field,
    node("svg:rect", { class: "vb-frame", x: left, y: top, width: wide, height: tall }));
  const inside = ({ millions, billions }) => millions >= x[0] && millions <= x[1] && billions >= y[0] && billions <= y[1];
  /** How far a network lies from a place in the drawing, in its pixels. */
  const far = (place) => ({ millions, billions }) => Math.hypot(
    left + across(millions) - place[0] * width, top + down(billions) - place[1] * height);
  return { drawing, field, wide, across, down, inside, far };
}

/**
 * @param {HTMLElement} root
 * @param {{network: {side: number, classes: number}, patches: number[],
 *   start: {depth: number, width: number, ratio: number, patch: number}, limits: Record<string, number[]>,
 *   designs: {name: string, parameters: number, macs: number}[], goal: {narrow: ?number, patch: ?number},
 *   plane: object, layout: object, color: string, task: string}} data
 */
export function render(root, data) {
  const { network, limits, start, patches, goal } = data;
  const figure = live(root, data, start), { state, change } = figure;
  const networks = new Map(patches.map((patch) => [patch, allNetworks(limits, patch, network)]));
  const at = ({ depth, width, ratio, patch }) => {
    const { parameters, macs, pairs } = count(depth, width, ratio * width, patch, network);
    return { parameters, macs, pairs, millions: parameters / 1e6, billions: macs / 1e9 };
  };
  const before = at(start);
  const within = (name, value) => clamp(value, limits[name][0], limits[name][1]);

  const { drawing, field, wide, across, down, inside, far } = plane(data.plane, data.layout);
  const level = down(before.billions);
  field.append(node("svg:line", { class: "vb-sweep", x1: 0, x2: wide, y1: level, y2: level }));
  for (const { name, parameters, macs } of data.designs) {
    const x = across(parameters), y = down(macs);
    field.append(node("svg:rect", { x: x - 3, y: y - 3, width: 6, height: 6, fill: data.color, class: "vb-dot" }),
      node("svg:text", { class: "vb-name", x: x + 7, y: y + 4, "font-size": 12 }, name));
  }
  const handle = node("svg:g", { class: "vb-handle", tabindex: 0, role: "slider", "data-control": "network",
    "aria-label": "network; up and down a layer, left and right a width",
    "aria-valuemin": limits.depth[0], "aria-valuemax": limits.depth[1] },
  node("svg:circle", { r: 19, fill: "transparent" }), node("svg:circle", { r: 6, class: "vb-dot vb-own" }));
  field.append(handle);
  drag(drawing, {
    handle,
    move: (...place) => {
      const { depth, width, ratio } = under(networks.get(state.patch), far(place), state, limits);
      change({ depth, width, ratio });
    },
    walk: (down, right) => {
      const next = { ...state, depth: within("depth", state.depth - down), width: within("width", state.width + right * limits.width[2]) };
      if (inside(at(next))) change(next); // else the keys would lose it
    },
  });

  const picture = networkDrawing(limits), image = patches.length > 1 && cutImage(network);
  const slider = (control, words, tell) => {
    const [min, max, step] = limits[control];
    return figure.slider(control, words, { min, max, step, tell });
  };
  const layers = ({ depth, width }) => `${depth} layer${depth === 1 ? "" : "s"} of width ${width}`;

  function draw() {
    const now = at(state), { parameters, macs, pairs, millions, billions } = now;
    const equal = Math.abs(macs / before.macs - 1) < EQUAL;
    set(handle, { visibility: inside(now) ? "visible" : "hidden", "aria-valuenow": state.depth, "aria-valuetext": layers(state) });
    for (const circle of handle.children) set(circle, { cx: across(millions), cy: down(billions) });
    picture.show(state);
    if (image) image.show(state);
    return {
      says: `${millions.toFixed(2)} M parameters, ${billions.toFixed(2)} G multiply-adds ` +
        `(${Math.round(100 * macs / before.macs)} % of those at the start), ${(pairs / 1e9).toFixed(2)} G of them for pairs of tokens. ` +
        `${inside(now) ? "" : "Beyond the plane. "}`,
      reached: equal && (goal.patch ? state.patch === goal.patch : state.width <= goal.narrow) && state.ratio === start.ratio && `${layers(state)} cost as much as ` +
        `${layers(start)}${goal.patch ? ` and patches of ${start.patch} px` : ""}, with ${Math.round(100 * parameters / before.parameters)} % of the parameters.`,
      told: { parameters, macs },
    };
  }

  const sides = image && figure.slider("patch", "Patches", {
    max: patches.length - 1, tell: (i) => `${patches[i]} px`,
    at: () => patches.indexOf(state.patch), part: (i) => ({ patch: patches[i] }),
  });
  figure.stage(draw,
    div(image ? "vb-dials vb-four" : "vb-dials",
      slider("depth", "Depth", (value) => `${value} layer${value === 1 ? "" : "s"}`),
      slider("width", "Width", String), slider("ratio", "MLP ratio", String), sides || "", figure.reset),
    image ? div("vb-shape", image.element, picture.element) : picture.element, drawing,
    note("Circle: the network as set; drag it, and the network follows. Dashes: as many multiply-adds as at the start." +
      (data.designs.length ? " Squares: designs as printed." : "")));
}
