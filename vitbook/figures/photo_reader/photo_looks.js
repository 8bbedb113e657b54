import { node } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { softmax } from "../parts/numbers.js";
import { canvas, div, image, label } from "../parts/parts.js";
import { colorAxes, tokenColor } from "../parts/token_colors.js";
import { veilAt } from "../parts/veil.js";

const TOLD = 5; // classes

/** A veil over a photograph: the less, the brighter. */
const veil = (to, rows, columns, share) =>
  paint(to, rows, columns, (i) => veilAt(share(i)));

/** Red, green and blue planes on a canvas. */
export const showPlanes = (to, planes, side) => paint(to, side, side, (i) =>
  [planes[i], planes[side * side + i], planes[2 * side * side + i]]);

/** What the page reads of the model's outputs. */
export const looks = (outputs) => ({
  saliency: outputs["answer:saliency"].data,
  logits: (head) => Array.from(outputs[`answer:${head}`].data),
  layers: (kind) => Object.entries(outputs).filter(([name]) => name.startsWith(`${kind}:`)).map(([, each]) => each),
});

/** A photograph under what the model says of it, and the name of that. */
function panel(framed, smooth) {
  const under = canvas(), over = canvas(smooth ? "vb-smooth" : ""), words = label();
  return { under, over, words, element: div("", words, image(1, 1, under, over, framed())) };
}

/** Where a patch looks, and the tokens' colours, of one layer. */
export function layerLook(framed) {
  const attends = panel(framed), tokens = panel(framed);
  let axes = new Map(), axesOf = null;

  /** @returns what is told of it, in numbers */
  function draw({ found, clean, planes, pixels, side, columns, layer, head, patch }) {
    const { layers } = looks(found.outputs), map = layers("attention")[layer - 1];
    const [, heads, queries, keys] = map.dims, prefix = keys - columns ** 2;
    const chosen = head === "mean" ? Array.from({ length: heads }, (_, i) => i) : [Number(head)];
    const row = Float32Array.from({ length: keys }, (_, key) => chosen.reduce((sum, h) =>
      sum + map.data[(h * queries + prefix + patch) * keys + key], 0) / chosen.length);
    const weights = row.subarray(prefix), top = Math.max(...weights);
    showPlanes(attends.under, pixels, side);
    veil(attends.over, columns, columns, (i) => Math.sqrt(weights[i] / top));
    attends.words.textContent = `What the framed patch attends to, layer ${layer}`;

    // The colours are those of the photograph as it came, so that only what a stroke changes moves.
    if (axesOf !== planes) [axes, axesOf] = [new Map(), planes];
    const patches = (of) => {
      const { data, dims } = looks(of.outputs).layers("tokens")[layer - 1];
      return [data.subarray(prefix * dims[2]), dims[2]];
    };
    if (!axes.has(layer)) axes.set(layer, colorAxes(...patches(clean ?? found)));
    const [own, width] = patches(found);
    paint(tokens.over, columns, columns, (i) => tokenColor(axes.get(layer), own, width, i));
    tokens.words.textContent = `Tokens after layer ${layer}: like colours, like tokens`;
    return { top, brightest: weights.indexOf(top), even: 1 / keys,
      prefix: row.subarray(0, prefix).reduce((sum, value) => sum + value, 0) };
  }
  return { draw, elements: [attends.element, tokens.element] };
}

/** The model's answers: a map, now and before the brush, and the likeliest classes. */
export function answerLook(framed, figure) {
  const now = panel(framed, true), first = panel(framed, true);
  now.words.textContent = "What draws the eye, says the model";
  first.words.textContent = "The same before the brush";
  const select = figure.select("answers", "Classes to choose among", []), fitted = node("p", { class: "vb-note" });
  const bars = Array.from({ length: TOLD }, () => {
    const name = node("span"), bar = node("i"), was = node("b", { class: "vb-was" }), chance = node("span");
    const element = div("vb-class", name, node("span", { class: "vb-track" }, bar, was), chance);
    return { name, bar, was, chance, element };
  });

  function drawMaps({ found, clean, planes, pixels, side }) {
    const map = looks(found.outputs).saliency, was = clean && looks(clean.outputs).saliency;
    showPlanes(now.under, pixels, side);
    veil(now.over, side, side, (i) => map[i]);
    first.element.hidden = !was || found === clean;
    if (first.element.hidden) return 0;
    showPlanes(first.under, planes, side);
    veil(first.over, side, side, (i) => was[i]);
    return map.reduce((sum, value, i) => sum + Math.abs(value - was[i]), 0) / side ** 2;
  }

  /** @returns what is told of it: the first class, and the one before the brush */
  function draw(given, heads) {
    const { found, clean, side, answers } = given, { classes, dataset, size, accuracy } = heads[answers];
    const chances = softmax(looks(found.outputs).logits(answers));
    const before = clean && found !== clean && softmax(looks(clean.outputs).logits(answers));
    const order = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]);
    bars.forEach(({ name, bar, was, chance, element }, i) => {
      const each = order[i];
      element.hidden = each === undefined;
      if (element.hidden) return;
      name.textContent = classes[each];
      element.classList.toggle("vb-most", i === 0);
      bar.style.width = `${100 * chances[each]}%`;
      was.hidden = !before;
      if (before) was.style.left = `calc(${before[each]} * (100% - 3px))`;
      chance.textContent = chances[each].toFixed(2);
    });
    fitted.textContent = `One linear layer on the tokens, which this book fitted on ${dataset.split(",")[0]} at ${size} px. ` +
      `It is right on ${Math.round(100 * accuracy[0])} % of held-out images${side === size ? "" : `; here it reads ${side} px`}. ` +
      "It must choose one of its classes, even where none fits.";
    return { top: classes[order[0]], chance: chances[order[0]], moved: drawMaps(given),
      was: before && classes[before.indexOf(Math.max(...before))] };
  }

  /** Name the heads that there are to choose among. */
  function name(heads, chosen) {
    select.replaceChildren(...Object.entries(heads).map(([value, { dataset, classes }]) =>
      node("option", { value }, `${classes.length} classes of ${dataset.split(",")[0]}`)));
    select.value = chosen;
  }
  return { draw, name, maps: [now.element, first.element],
    classes: [label("Which class?"), select, ...bars.map(({ element }) => element), fitted] };
}
