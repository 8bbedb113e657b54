import { heat, paint } from "../parts/paint.js";
import { argmax, inWords, softmax } from "../parts/numbers.js";
import { canvas, div, frame, image, labelled, note, photo, term } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** One row of attention: scores times a sharpness, one token left out (-1: none). */
export const attend = (scores, sharpness, without) =>
  softmax(scores.map((score, j) => (j === without ? -Infinity : sharpness * score)));

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
  const figure = live(root, data, { query: data.query, sharpness: data.one, masked: false });
  const { state } = figure;

  const cells = figure.cells("query", rows, columns), asked = frame(rows, columns);
  const still = photo(data.image), map = canvas(), colors = note();
  still.alt = data.alt;
  const self = term("of its weight on itself"), most = term("on the best other patch");
  const used = term(`tokens in use, of ${data.scores[0].length}`);

  function words({ weights, free, itself, best }) {
    const times = sharpness[state.sharpness], there = inWords(best - prefix, columns);
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

  function draw({ query, masked }) {
    const itself = prefix + query;
    const scores = data.scores[query], times = sharpness[state.sharpness];
    const free = attend(scores, times, -1);
    const weights = masked ? attend(scores, times, itself) : free;
    const best = argmax(weights.map((weight, j) => (j < prefix || j === itself ? -1 : weight)));
    const top = Math.max(...weights.slice(prefix));
    paint(map, rows, columns, (patch) => color(weights[prefix + patch], top));
    asked.put(query);
    colors.textContent = `Brightest: ${top.toPrecision(2)}`;
    self.say(masked ? "0" : weights[itself].toFixed(2));
    most.say(weights[best].toFixed(2));
    used.say(inUse(weights).toFixed(1));
    const reached = masked && free[itself] > data.goal &&
      `sharpened alone, ${free[itself].toFixed(2)} of the weight ends at itself. ` +
      "Masked, the same sharpness has to choose among the others.";
    return { says: words({ weights, free, itself, best }), reached,
      told: { weights, used: inUse(weights) } };
  }

  figure.stage(draw,
    div("vb-dial",
      labelled("Click the patch that asks", image(...data.size, still, cells.element)),
      labelled("Where it looks", image(...data.size, map, asked.element), colors)),
    div("vb-controls",
      figure.slider("sharpness", "Sharpness",
        { max: sharpness.length - 1, tell: (at) => `scores × ${sharpness[at]}` }),
      figure.toggle("masked", "Mask itself"), figure.reset),
    div("vb-terms", self.element, most.element, used.element));
}
