import { node } from "../parts/page.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [640, 230, 56, 12, 10, 204];

/** Points as the path of an SVG. */
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Where the names of two ends stand: beneath them or, near the ground, above, and over neither name nor line. */
function beside(ys) {
  const [high, low] = [...ys].sort((a, b) => a - b), near = low - high < 44, ground = low + (near ? 42 : 20) > BOTTOM - 6;
  const [upper, lower] = near ? (ground ? [high - 30, high - 8] : [low + 20, low + 42]) : [high + 20, low + (ground ? -8 : 20)];
  return ys[0] > ys[1] ? [lower, upper] : [upper, lower];
}

/** Accuracy and loss over the images that were shown, `most` of them; of two runs the second is thick. */
export function curves(most) {
  const element = node("svg:svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": "accuracy and loss while it learns" });
  const x = (images) => LEFT + (WIDE - LEFT - RIGHT) * images / most, y = (share) => BOTTOM - (BOTTOM - TOP) * share;
  const ground = [0, 0.25, 0.5, 0.75, 0.9, 1].flatMap((share) => [
    node("svg:line", { class: share ? "vb-line" : "vb-axis", x1: LEFT, x2: WIDE - RIGHT, y1: y(share), y2: y(share) }),
    node("svg:text", { class: "vb-tick", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`)]);
  const words = [[LEFT, "start", "digits read right; orange: the loss of the model below"],
    [WIDE - RIGHT, "end", `${most.toLocaleString("en")} images shown`]].map(([at, anchor, said]) =>
    node("svg:text", { class: "vb-tick vb-axis-word", x: at, y: BOTTOM + 20, "text-anchor": anchor }, said));
  /** Runs with their names; `shown` is the one that is looked at, and `now` where the reader stands in time. */
  function show(runs, names, shown, now) {
    const heights = beside(runs.map(({ told }) => y(told.at(-1)?.accuracy ?? 0)));
    element.replaceChildren(...ground, ...words, ...runs.flatMap(({ told }, i) => {
      const last = told.at(-1), main = i === runs.length - 1, losses = told.filter((t) => t.loss !== null);
      if (!last) return [];
      const kind = main ? "vb-accuracy" : "vb-before", first = losses[0]?.loss;
      return [
        ...(i === shown && losses.length > 1 ? [node("svg:path", { class: "vb-loss", d: path(losses.map((t) =>
          [x(t.images), y(Math.min(t.loss / first, 1))])) })] : []),
        node("svg:path", { class: kind, d: path(told.map((t) => [x(t.images), y(t.accuracy)])) }),
        ...(runs.length > 1 ? [node("svg:text", { class: `vb-told ${kind}-name`, "text-anchor": last.images < most / 2 ? "start" : "end",
          x: Math.min(x(last.images), WIDE - RIGHT), y: heights[i] }, names[i])] : []),
      ];
    }), ...(now ? [node("svg:circle", { class: "vb-here", cx: x(now.images), cy: y(now.accuracy), r: 5 })] : []));
  }
  show([], [], 0, null);
  return { element, show };
}
