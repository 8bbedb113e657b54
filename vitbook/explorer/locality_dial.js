import { node, stage, heat, paint, grid } from "./shared.js";

/** One row of attention: scores times a sharpness, one token left out (-1: none). */
export function attend(scores, sharpness, without) {
  const scaled = scores.map((score, j) => (j === without ? -Infinity : sharpness * score));
  const top = Math.max(...scaled);
  const powers = scaled.map((score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

/** How many tokens even weights of the same entropy would be spread over. */
export const inUse = (weights) =>
  Math.exp(-weights.reduce((sum, weight) => sum + (weight ? weight * Math.log(weight) : 0), 0));

/**
 * @param {HTMLElement} root
 * @param {{image: string, alt: string, scores: number[][], grid: [number, number],
 *   size: [number, number], prefix: number, query: number, sharpness: number[], one: number,
 *   goal: number, ramp: string[], task: string}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, { prefix, sharpness } = data;
  const color = heat(data.ramp);
  const start = { query: data.query, sharpness: data.one, masked: false };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };
  const named = (patch) => `row ${Math.floor(patch / columns) + 1}, column ${patch % columns + 1}`;

  const cells = grid({
    rows, columns, control: "query", label: "patch that asks",
    name: (row, column) => `patch ${named(row * columns + column)}`,
    pick: (row, column) => change({ query: row * columns + column }),
  });
  const ratio = `aspect-ratio: ${data.size[1]} / ${data.size[0]}`;
  const picture = node("div", { class: "vb-picture", style: ratio },
    node("img", { src: data.image, alt: data.alt }), cells.element);
  const map = node("canvas", { "aria-hidden": "true" });
  const asked = node("div", { class: "vb-asked",
    style: `width: ${100 / columns}%; height: ${100 / rows}%` });
  const looks = node("div", { class: "vb-picture", style: ratio }, map, asked);
  const colors = node("p", { class: "vb-note" });

  const amount = node("span", { class: "vb-amount" });
  const input = node("input", {
    type: "range", min: 0, max: sharpness.length - 1, step: 1, "data-control": "sharpness",
    oninput: () => change({ sharpness: Number(input.value) }),
  });
  const button = (control, words, onclick) =>
    node("button", { type: "button", "data-control": control, onclick }, words);
  const mask = button("masked", "Mask itself", () => change({ masked: !state.masked }));
  const reset = button("reset", "Reset", () => change(start));

  const term = (words) => {
    const number = node("b");
    return { number, element: node("div", {}, number, node("span", { class: "vb-note" }, words)) };
  };
  const total = data.scores[0].length;
  const self = term("of its weight on itself"), most = term("on the best other patch");
  const used = term(`tokens in use, of ${total}`);
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function words({ weights, free, itself, best }) {
    const times = sharpness[state.sharpness], there = named(best - prefix);
    if (state.masked) {
      return `Forbidden to look at itself, it spreads its ${free[itself].toFixed(2)} over the ` +
        "others in proportion to what they had. " +
        `Most goes to ${there}: ${weights[best].toFixed(2)}. `;
    }
    const first = weights[itself] > weights[best];
    return `${times === 1 ? "As the model has it" : `Scores times ${times}`}: ` +
      `${first ? "no other patch" : `the patch in ${there}`} gets more than the patch itself. ` +
      (weights[itself] > data.goal ? "Sharpened so far, it hardly looks at anything else. " : "");
  }

  function update() {
    const { query, masked } = state, itself = prefix + query;
    const scores = data.scores[query], times = sharpness[state.sharpness];
    const free = attend(scores, times, -1);
    const weights = masked ? attend(scores, times, itself) : free;
    const others = weights.map((weight, j) => (j < prefix || j === itself ? -1 : weight));
    const best = others.indexOf(Math.max(...others)), top = Math.max(...weights.slice(prefix));
    paint(map, rows, columns, (r, c) => color(weights[prefix + r * columns + c], top));
    cells.choose(query);
    asked.style.left = `${100 * (query % columns) / columns}%`;
    asked.style.top = `${100 * Math.floor(query / columns) / rows}%`;
    colors.textContent = `Brightest: ${top.toPrecision(2)}`;
    input.value = state.sharpness;
    input.setAttribute("aria-valuetext", amount.textContent = `scores × ${times}`);
    mask.setAttribute("aria-pressed", masked);
    mask.classList.toggle("vb-pressed", masked);
    self.number.textContent = masked ? "0" : weights[itself].toFixed(2);
    most.number.textContent = weights[best].toFixed(2);
    used.number.textContent = inUse(weights).toFixed(1);
    const reached = masked && free[itself] > data.goal;
    readout.replaceChildren(words({ weights, free, itself, best }), !reached ? "" : node("strong",
      {}, `✓ Reached: sharpened alone, ${free[itself].toFixed(2)} of the weight ends at itself. ` +
        "Masked, the same sharpness has to choose among the others."));
    Object.assign(root, { weights, used: inUse(weights) }); // for the console, and for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-dial" },
      node("div", {}, node("div", { class: "vb-label" }, "Click the patch that asks"), picture),
      node("div", {}, node("div", { class: "vb-label" }, "Where it looks"), looks, colors)),
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider" }, node("span", {}, "Sharpness"), input, amount),
      mask, reset),
    node("div", { class: "vb-terms" }, self.element, most.element, used.element),
    readout);
  update();
}
