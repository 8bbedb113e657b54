import { node, set } from "../parts/page.js";
import { div, note } from "../parts/parts.js";

const WIDE = 660, HIGH = 160; // of the drawing
const STEP = WIDE / 24.5; // a layer

/**
 * A Vision Transformer drawn to scale, layer after layer: attention as a box as high as the tokens are
 * wide, then the MLP, which widens to its hidden width and comes back.
 */
export function networkDrawing(limits) {
  const widest = limits.width[1] * limits.ratio[1], middle = HIGH / 2;
  const high = (width) => width / widest * HIGH;
  const field = node("svg:g");
  const drawing = node("svg:svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "vb-network", role: "img" },
    field), words = note();
  const box = (kind, x, wide, ...heights) => {
    const points = heights.flatMap((each, i) => {
      const at = x + wide * i / (heights.length - 1 || 1);
      return heights.length > 1 ? [[at, each]] : [[x, each], [x + wide, each]];
    });
    const corners = [...points.map(([at, each]) => [at, middle - each / 2]),
      ...points.reverse().map(([at, each]) => [at, middle + each / 2])];
    return node("svg:polygon", { class: kind, points: corners.map((each) => each.join(",")).join(" ") });
  };
  function show({ depth, width, ratio }) {
    const token = high(width), hidden = high(ratio * width), told = Math.round(ratio * width).toLocaleString("en");
    const layers = Array.from({ length: depth }, (_, i) => [
      box("vb-attends", 4 + i * STEP, 0.34 * STEP, token),
      box("vb-mixes", 4 + (i + 0.42) * STEP, 0.5 * STEP, token, hidden, hidden, token)]);
    const name = `${depth} layer${depth === 1 ? "" : "s"} of width ${width}, MLP of ${told}`;
    field.replaceChildren(
      node("svg:line", { class: "vb-shaft", x1: 0, x2: 4 + depth * STEP + 4, y1: middle, y2: middle }),
      ...layers.flat());
    words.textContent = `${name}. Blue: attention. Orange: the MLP.`;
    set(drawing, { "aria-label": `The network: ${name}` });
  }
  return { element: div("", words, drawing), show };
}

/** A square image, and the lines along which it is cut into patches. */
export function cutImage({ side }) {
  const lines = node("svg:path", { class: "vb-cuts" }), words = note();
  const drawing = node("svg:svg", { viewBox: `-1 -1 ${side + 2} ${side + 2}`, role: "img" },
    node("svg:rect", { class: "vb-frame", width: side, height: side }), lines);
  function show({ patch }) {
    const cuts = Array.from({ length: side / patch - 1 }, (_, i) => (i + 1) * patch);
    set(lines, { d: cuts.map((at) => `M${at} 0V${side}M0 ${at}H${side}`).join("") });
    const told = `${((side / patch) ** 2).toLocaleString("en")} patches`;
    words.textContent = told;
    set(drawing, { "aria-label": `The image, cut into ${told}` });
  }
  return { element: div("", words, drawing), show };
}
