import { node, set } from "../parts/page.js";
import { bytes } from "../parts/numbers.js";
import { div, term } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { address, linkTo, restored, stated } from "../parts/address.js";

const SIDE = 320, REACH = 150; // of the drawing, and of a label of length 1

/** Labels "tokens dimensions" of length 1, from signed bytes. */
export function unitLabels(levels, dimensions) {
  return Array.from({ length: levels.length / dimensions }, (_, i) => {
    const row = [...levels.slice(i * dimensions, (i + 1) * dimensions)];
    const length = Math.max(Math.hypot(...row), 1e-12);
    return row.map((number) => number / length);
  });
}

/** One less the squared length of the mean label in each group, mean of the groups. */
export function cloudSpread(labels, groups) {
  const count = Math.max(...groups) + 1;
  let total = 0;
  for (let group = 0; group < count; group++) {
    const some = labels.filter((_, i) => groups[i] === group);
    const mean = some[0].map((_, k) => some.reduce((sum, row) => sum + row[k], 0) / some.length);
    total += 1 - mean.reduce((sum, number) => sum + number ** 2, 0);
  }
  return total / count;
}

/** Where labels lie in the plane, right and up. */
export const inPlane = (labels, center, plane) => labels.map((row) =>
  plane.map((direction) => direction.reduce((sum, d, k) => sum + d * (row[k] - center[k]), 0)));

/** What a link says of a state, as far as it was kept. */
export function cloudState(text, { names, steps }) {
  const said = stated(text, { way: [0, names.length - 1], step: [steps[0], steps.at(-1)] });
  if (!steps.includes(said.step)) delete said.step;
  return said;
}

/**
 * @param {HTMLElement} root
 * @param {{names: string[], steps: number[], group: string, labels: string[], groups: number[],
 *   losses: number[][], dimensions: number, center: number[], plane: number[][], colors: string[],
 *   one: number, start: {way: number, step: number}, task: string}} data
 */
export function render(root, data) {
  const { names, steps, groups, dimensions, center, plane } = data;
  const figure = live(root, data, data.start), { state, change } = figure;
  const size = groups.length * dimensions;
  const kept = data.labels.map((text) => {
    const all = new Int8Array(bytes(text).buffer);
    return steps.map((_, i) => unitLabels(all.slice(i * size, (i + 1) * size), dimensions));
  });

  const choice = figure.chooser("way", "what holds the labels", names,
    { face: (i) => names[i], kind: "vb-choice" });
  const slider = figure.slider("step", "Step", {
    max: steps.length - 1, tell: (i) => steps[i],
    at: () => steps.indexOf(state.step), part: (i) => ({ step: steps[i] }),
  });
  const link = node("a", { class: "vb-link" }, "Link to this view");
  const spread = term("spread of the labels"), loss = term("loss");
  const dot = (kind, more) => node("svg:circle", { class: kind, ...more });
  const ghosts = groups.map(() => dot("vb-ghost", { r: 3 }));
  const dots = groups.map((group) => dot("vb-dot", { r: 5.5, fill: data.colors[group] }));
  const put = (circle, [right, up]) =>
    set(circle, { cx: (REACH * right).toFixed(1), cy: (-REACH * up).toFixed(1) });
  const drawing = node("svg:svg", { class: "vb-cloud", role: "img",
    viewBox: `${-SIDE / 2} ${-SIDE / 2} ${SIDE} ${SIDE}` },
    dot("vb-reach", { r: REACH, cx: (-REACH * across(0)).toFixed(1), cy: (REACH * across(1)).toFixed(1) }),
    ...ghosts, ...dots);

  /** How far the common middle lies along a direction: the circle is around the origin. */
  function across(which) {
    return plane[which].reduce((sum, d, k) => sum + d * center[k], 0);
  }

  function draw({ way, step }) {
    const at = steps.indexOf(step), now = kept[way][at];
    inPlane(kept[way][0], center, plane).forEach((place, i) => put(ghosts[i], place));
    inPlane(now, center, plane).forEach((place, i) => put(dots[i], place));
    const spreads = cloudSpread(now, groups), told = spreads.toFixed(2);
    spread.say(told);
    loss.say(data.losses[way][at].toFixed(2));
    set(drawing, { "aria-label": `${groups.length} labels at step ${step}, spread ${told}` });
    const named = { way, step };
    linkTo(link, address(root, "labels", named));
    return {
      says: `Held by: ${names[way]}. Step ${step}: the labels' spread is ${told}, it was ` +
        `${cloudSpread(kept[way][0], groups).toFixed(2)}; the loss is ${data.losses[way][at].toFixed(2)}. `,
      reached: way === 0 && spreads < data.one &&
        "the labels are one point. An answer that never changes is right for all of them.",
      told: { spread: spreads },
      named,
    };
  }

  figure.stage(draw,
    div("vb-controls vb-start", div("vb-prefix", node("span", {}, "Held by"), choice), slider,
      figure.reset, link),
    div("vb-clouds", drawing, div("vb-terms", spread.element, loss.element)));
  restored(root, "labels", (text) => cloudState(text, data), change);
}
