import { node, set } from "../parts/page.js";
import { div, drag, labelled, note, word } from "../parts/parts.js";
import { clamp } from "../parts/numbers.js";
import { live } from "../parts/live.js";
import { networkDrawing } from "./network_drawing.js";

const ROUNDING = 0.05; // of a figure that is printed with one decimal
const NEAR = 4; // px of a plane: of the networks so near to a pointer, the one most like the last

/** Parameters and multiply-adds of a Vision Transformer of plain blocks, queries without bias. */
export function count(depth, width, hidden, { patches, pixels, classes }) {
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
export function allNetworks(limits, network) {
  const [depths, widths, ratios] = ["depth", "width", "ratio"].map((name) => {
    const [low, high, step] = limits[name];
    return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);
  });
  return depths.flatMap((depth) => widths.flatMap((width) => ratios.map((ratio) => {
    const { parameters, macs } = count(depth, width, ratio * width, network);
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
function plane({ label, x, y, x_ticks, y_ticks }, { size, inset }) {
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
  const inside = (px, py) => px >= x[0] && px <= x[1] && py >= y[0] && py <= y[1];
  /** How far a network lies from a place in the drawing, in its pixels. */
  const far = (place) => ({ millions, billions }) => Math.hypot(
    left + across(millions) - place[0] * width, top + down(billions) - place[1] * height);
  return { element: labelled(label, drawing), drawing, field, across, down, inside, far };
}

/**
 * @param {HTMLElement} root
 * @param {{network: {patches: number, pixels: number, classes: number},
 *   start: {depth: number, width: number, ratio: number}, limits: Record<string, number[]>,
 *   designs: {name: string, parameters: number, macs: number}[],
 *   goal: {name: string, depth: number, width: number, parameters: number, macs: number},
 *   planes: object[], layout: object, color: string, task: string}} data
 */
export function render(root, data) {
  const { goal, network, limits } = data;
  const figure = live(root, data, data.start), { state, change } = figure;
  const networks = allNetworks(limits, network), names = ["network", "near"];
  const picked = ({ depth, width, ratio }) => change({ depth, width, ratio });
  const within = (name, value) => clamp(value, limits[name][0], limits[name][1]);

  const views = data.planes.map((each, i) => {
    const view = plane(each, data.layout);
    const { across, down, field } = view;
    const sweep = node("svg:polyline", { class: "vb-sweep" });
    const dot = node("svg:circle", { r: 6, class: "vb-dot vb-own" });
    const handle = node("svg:g", { class: "vb-handle", tabindex: 0, role: "slider",
      "data-control": names[i], "aria-label": `network, ${each.label}; up and down a layer, ` +
      "left and right a width", "aria-valuemin": limits.depth[0], "aria-valuemax": limits.depth[1] },
      node("svg:circle", { r: 19, fill: "transparent" }), dot);
    if (each.lens) {
      const [x0, x1] = each.lens.x, [y0, y1] = each.lens.y;
      field.append(node("svg:rect", { class: "vb-lens", x: across(x0), y: down(y1),
        width: across(x1) - across(x0), height: down(y0) - down(y1) }));
    }
    field.append(sweep);
    for (const { name, parameters, macs } of data.designs) {
      const x = across(parameters), y = down(macs);
      const wide = Math.max(across(parameters + ROUNDING) - x, 3);
      const tall = Math.max(y - down(macs + ROUNDING), 3);
      field.append(node("svg:rect", { x: x - wide, y: y - tall, width: 2 * wide,
        height: 2 * tall, fill: data.color, class: "vb-dot" }));
      if (!each.lens || !inLens(each.lens, parameters, macs)) {
        field.append(node("svg:text", { class: "vb-name", x: x + (each.lens ? 8 : -8), y: y + 4,
          "text-anchor": each.lens ? "start" : "end", "font-size": 12 }, name));
      }
    }
    field.append(handle);
    drag(view.drawing, {
      handle,
      move: (...place) => picked(under(networks, view.far(place), state, limits)),
      walk: (down, right) => {
        const [depth, width] = [within("depth", state.depth - down),
          within("width", state.width + right * limits.width[2])];
        const { parameters, macs } = count(depth, width, state.ratio * width, network);
        if (!views[0].inside(parameters / 1e6, macs / 1e9)) return; // the keys would lose it
        change({ depth, width });
        if (handle.getAttribute("visibility") === "hidden") views[0].handle.focus();
      },
    });
    return { ...view, sweep, handle };
  });

  const picture = networkDrawing(limits);
  const slider = (control, words, tell) => {
    const [min, max, step] = limits[control];
    return figure.slider(control, words, { min, max, step, tell });
  };

  const share = (counted, printed) => {
    const off = 100 * (counted / printed - 1);
    return Math.abs(counted - printed) < ROUNDING ? `those printed too: ${printed.toFixed(1)}`
      : `${Math.abs(off).toFixed(1)} % ` +
      `${off < 0 ? "under" : "over"} the printed ${printed.toFixed(1)}`;
  };

  function draw({ depth, width, ratio }) {
    const at = (ratio) => count(depth, width, ratio * width, network);
    const { parameters, macs, pairs } = at(ratio);
    const [millions, billions] = [parameters / 1e6, macs / 1e9];
    const line = limits.ratio.slice(0, 2).map(at)
      .map((each) => [each.parameters / 1e6, each.macs / 1e9]);
    for (const { across, down, inside, sweep, handle } of views) {
      set(sweep, { points: line.map(([x, y]) => `${across(x)},${down(y)}`).join(" ") });
      set(handle, { visibility: inside(millions, billions) ? "visible" : "hidden",
        "aria-valuenow": depth, "aria-valuetext": `${depth} layers of width ${width}` });
      for (const circle of handle.children) set(circle, { cx: across(millions), cy: down(billions) });
    }
    picture.show(state);

    const built = depth === goal.depth && width === goal.width;
    const tenths = Math.round(10 * goal.parameters);
    const meets = [Math.floor, Math.round].some((cut) => cut(10 * millions) === tenths);
    const away = views.some((view) => view.inside(millions, billions)) ? ""
      : "Beyond both planes. ";
    const then = `The multiply-adds are ${share(billions, goal.macs)} G.`;
    return {
      says: [`${millions.toFixed(2)} M parameters, ${billions.toFixed(2)} G multiply-adds, ` +
        `${(pairs / 1e9).toFixed(2)} G of them for pairs of tokens. ${away}`,
      meets && !built ? node("strong", {}, `By chance ${goal.parameters} M, rounded or cut, from ` +
        `other layers than ${goal.name}'s. ${then}`) : ""],
      reached: meets && built && `${goal.parameters} M, rounded or cut. ${then}`,
      told: { parameters, macs },
    };
  }

  figure.stage(draw,
    div("vb-dials",
      slider("depth", "Depth", (value) => `${value} layer${value === 1 ? "" : "s"}`),
      slider("width", "Width", String), slider("ratio", "MLP ratio", String), figure.reset),
    picture.element,
    div("vb-pair", ...views.map(({ element }) => element)),
    note("Circle: the network as set; drag it, and the network follows. Dashes: where other MLP ratios " +
      "would put it. Boxes: printed figures; on the right as large as their rounding."));
}

const inLens = ({ x, y }, parameters, macs) =>
  parameters >= x[0] && parameters <= x[1] && macs >= y[0] && macs <= y[1];
