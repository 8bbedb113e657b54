import { node, set } from "../parts/page.js";
import { div, note, term } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** Parameters and multiply-adds of one block and of the whole model. */
export function count(has, { width, depth, heads, hidden, patches, pixels, classes, registers }) {
  const prefix = (has.summary === 0) + registers * has.registers;
  const tokens = patches + prefix, norm = width * (has.norm ? 1 : 2);
  const gated = Math.ceil(2 * hidden / 24) * 8;
  const matrices = has.mlp ? 3 * width * gated : 2 * width * hidden;
  const biases = (has.mlp ? 2 * gated : hidden) + width;
  const block = 4 * width ** 2 + 4 * width + matrices + biases + 2 * norm
    + 2 * (width / heads) * has.attention + 2 * width * has.branch;
  const blockMacs = tokens * (4 * width ** 2 + matrices) + 2 * tokens ** 2 * width;
  let model = (pixels + 1) * width + prefix * width + depth * block + norm + (width + 1) * classes;
  if (has.position !== 1) model += tokens * width;
  let macs = patches * pixels * width + depth * blockMacs + classes * width;
  if (has.summary === 2) {
    model += 12 * width ** 2 + 12 * width;
    macs += tokens * 2 * width ** 2 + 2 * tokens * width + 10 * width ** 2;
  }
  return { block: [block, blockMacs], model: [model, macs] };
}

/** The parts in which two sets differ. */
export const apart = (one, other) => Object.keys(one).filter((part) => one[part] !== other[part]);

// What a part is called where it stands, by its option; empty where nothing stands.
const FACES = {
  norm: ["LayerNorm", "RMSNorm"],
  attention: ["attention", "attention, q and k normed"],
  mlp: ["MLP, GELU", "MLP, SwiGLU"],
  branch: ["", "LayerScale"],
  position: ["+ position table", "RoPE in every attention", "+ table, and RoPE"],
  registers: ["", "4 registers"],
  summary: ["class token", "no class token, mean", "no class token, attention pool"],
};
const CALLED = { branch: "LayerScale", registers: "registers" };
const NAMES = { norm: "norm", attention: "attention", mlp: "MLP", branch: "end of a branch",
  position: "position", registers: "registers", summary: "what the head reads" };
const times = (n) => `${n} swap${n === 1 ? "" : "s"}`;

/**
 * @param {HTMLElement} root
 * @param {{parts: {name: string, options: string[]}[], models: {name: string, has: object}[],
 *   sizes: object, goal: ?string, task: string}} data
 */
export function render(root, data) {
  const start = Object.fromEntries(data.parts.map(({ name }) => [name, 0]));
  const figure = live(root, data, start), { state, change } = figure;
  const options = Object.fromEntries(data.parts.map(({ name, options }) => [name, options]));
  const current = () => Object.fromEntries(Object.keys(start).map((name) => [name, state[name]]));
  const found = () => data.models.findIndex(({ has }) => !apart(has, current()).length);
  const boxes = [];

  function box(part, nth = "") {
    const next = () => (state[part] + 1) % options[part].length;
    const made = figure.button(part + nth, "", () => change({ [part]: next() }));
    made.classList.add("vb-part");
    boxes.push(() => {
      const face = FACES[part][state[part]];
      made.textContent = face || `no ${CALLED[part]}`;
      made.classList.toggle("vb-swapped", state[part] > 0);
      made.classList.toggle("vb-none", !face);
      set(made, { "aria-label": `${NAMES[part]}: ${made.textContent}. Press for ${options[part][next()]}` });
    });
    return made;
  }
  const fixed = (words) => node("span", { class: "vb-fixed" }, words);
  const branch = (nth, ...parts) => div("vb-branch", ...parts, box("branch", nth), fixed("+"));
  const drawn = div("vb-parts",
    div("vb-branch", fixed("patches"), box("position"), box("summary"), box("registers")),
    div("vb-framed", note("12 times this block"),
      branch("", box("norm"), box("attention")), branch("-2", box("norm", "-2"), box("mlp"))),
    div("vb-branch", box("norm", "-3"), fixed("linear head")));

  const numbers = [term("parameters of a block"), term("multiply-adds of a block"), term("parameters of the model")];
  const left = data.models.map(() => node("small"));
  const names = data.models.map(({ name }) => name);
  const chosen = figure.chooser("published", "published models", names, {
    face: (i) => node("span", {}, names[i], left[i]), kind: "vb-published",
    at: found, part: (i) => data.models[i].has,
  });

  function draw() {
    boxes.forEach((show) => show());
    const { block, model } = count(state, data.sizes), at = found();
    const ways = data.models.map(({ has }) => apart(has, current()));
    [[block[0] / 1e6, 2], [block[1] / 1e6, 0], [model[0] / 1e6, 1]].forEach(([value, digits], i) =>
      numbers[i].say(`${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} M`));
    const swaps = apart(start, current()).length;
    // Not before the first press: the chapter asks how many.
    left.forEach((each, i) => (each.textContent = !ways[i].length ? "these parts" : swaps ? times(ways[i].length) : ""));
    const near = Math.min(...ways.map(({ length }) => length)), nearest = ways.findIndex(({ length }) => length === near);
    return {
      says: at >= 0
        ? `These are the parts of ${names[at]}: ${swaps ? `${times(swaps)} from the block of 2020` : "the block of 2020"}. `
        : `No model of the list has exactly these parts. Nearest: ${names[nearest]}; swap ${ways[nearest].map((part) => NAMES[part]).join(", ")}. `,
      reached: at >= 0 && names[at] === data.goal && `${times(swaps)} make the block of 2020 that of ${data.goal}.`,
      told: { block, model },
    };
  }
  figure.stage(draw, drawn, div("vb-terms", ...numbers.map(({ element }) => element)),
    note("Published, and how many swaps away:"), chosen, div("vb-controls", figure.reset));
}
