import { node } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { softmax } from "../parts/numbers.js";
import { canvas, div, frame, image, label } from "../parts/parts.js";
import { colorAxes, tokenColor } from "../parts/token_colors.js";
import { veilAt } from "../parts/veil.js";

const TOLD = 5; // classes

/**
 * What a model says among classes of these chances: the likeliest, else what several likely ones
 * are, else that it does not know; `said_name` of studies/photograph.py.
 */
export function saidName(chances, nameOf, { kinds, least }) {
  const top = chances.indexOf(Math.max(...chances)), chance = chances[top];
  if (!least || chance >= least) return { known: true, name: nameOf(top), chance };
  const kind = kinds?.[top];
  const sum = kind ? chances.reduce((all, each, i) => (kinds[i] === kind ? all + each : all), 0) : 0;
  return sum >= least ? { known: true, name: kind, chance: sum, of: nameOf(top) } : { known: false, name: "I do not know", chance, of: nameOf(top) };
}

/** A veil over a photograph: the less, the brighter. */
export const veil = (to, rows, columns, share) =>
  paint(to, rows, columns, (i) => veilAt(share(i)));

/** Give the image that holds a canvas the shape of so many pixels, down and across. */
const shape = (over, [height, width]) => (over.parentElement.style.aspectRatio = `${width} / ${height}`);

/** Red, green and blue planes on a canvas, whose image takes their shape. */
export function showPlanes(to, planes, [height, width]) {
  const count = height * width;
  shape(to, [height, width]);
  paint(to, height, width, (i) => [planes[i], planes[count + i], planes[2 * count + i]]);
}

/** A photograph under what the model says of it, and the name of that. */
function panel(framed, smooth) {
  const under = canvas(), over = canvas(smooth ? "vb-smooth" : ""), words = label();
  return { under, over, words, element: div("", words, image(1, 1, under, over, framed())) };
}

/** A photograph with a frame of its own: `mark(grid, cell)` puts it. */
export function layerPanel() {
  const holder = div("vb-photo-frame"), made = panel(() => holder);
  const mark = (grid, cell) => {
    const box = frame(...grid);
    holder.replaceChildren(box.element);
    box.put(cell);
  };
  return { ...made, mark };
}

/** Where a patch looks, and the tokens' colours, of one layer. */
export function layerLook(framed) {
  const attends = panel(framed), tokens = panel(framed);
  let axes = new Map(), axesOf = null;

  /** What a patch attends to; null where the layer gives no map. */
  function drawMap({ found, manifest, pixels, size, grid, layer, head, patch }) {
    const { attention } = manifest.layers[layer - 1] ?? {};
    attends.element.hidden = !attention;
    if (!attention) return null;
    const map = found.outputs[attention], [, heads, queries, keys] = map.dims, { prefix } = manifest;
    const chosen = Number(head) < heads ? [Number(head)] : Array.from({ length: heads }, (_, i) => i);
    const row = Float32Array.from({ length: keys }, (_, key) => chosen.reduce((sum, h) =>
      sum + map.data[(h * queries + prefix + patch) * keys + key], 0) / chosen.length);
    const weights = row.subarray(prefix), top = Math.max(...weights);
    showPlanes(attends.under, pixels, size);
    veil(attends.over, ...grid, (i) => Math.sqrt(weights[i] / top));
    attends.words.textContent = `What the framed patch attends to, layer ${layer}`;
    return { top, brightest: weights.indexOf(top), even: 1 / keys,
      prefix: row.subarray(0, prefix).reduce((sum, value) => sum + value, 0) };
  }

  function drawTokens({ found, clean, manifest, planes, size, grid, layer }) {
    const { tokens: output } = manifest.layers[layer - 1] ?? {};
    tokens.element.hidden = !output;
    if (!output) return;
    // The colours are those of the photograph as it came, so that only what a stroke changes moves.
    if (axesOf !== planes) [axes, axesOf] = [new Map(), planes];
    const patches = (of) => {
      const { data, dims: [, count, width] } = of.outputs[output];
      return [data.subarray((count - grid[0] * grid[1]) * width), width];
    };
    if (!axes.has(layer)) axes.set(layer, colorAxes(...patches(clean ?? found)));
    const [own, width] = patches(found);
    shape(tokens.over, size);
    paint(tokens.over, ...grid, (i) => tokenColor(axes.get(layer), own, width, i));
    tokens.words.textContent = `Tokens after layer ${layer}: like colours, like tokens`;
  }

  /** @returns what is told of the map, in numbers */
  const draw = (given) => (drawTokens(given), drawMap(given));
  return { draw, elements: [attends.element, tokens.element] };
}

/** The model's answers: a map, now and before the brush, and the likeliest classes. */
export function answerLook(framed, figure) {
  const now = panel(framed, true), first = panel(framed, true);
  first.words.textContent = "The same before the brush";
  const select = figure.select("answers", "Who answers, and among which classes", []), fitted = node("p", { class: "vb-note" });
  const said = node("p", { class: "vb-said" }), why = node("p", { class: "vb-note" });
  const bars = Array.from({ length: TOLD }, () => {
    const name = node("span"), bar = node("i"), was = node("b", { class: "vb-was" }), chance = node("span");
    const element = div("vb-class", name, node("span", { class: "vb-track" }, bar, was), chance);
    return { name, bar, was, chance, element };
  });

  function drawMaps({ found, clean, manifest, planes, pixels, size }) {
    now.element.hidden = first.element.hidden = !manifest.map;
    if (!manifest.map) return null;
    const [output, title] = manifest.map;
    const map = found.outputs[output].data, was = clean?.outputs[output].data;
    now.words.textContent = title;
    showPlanes(now.under, pixels, size);
    veil(now.over, ...size, (i) => map[i]);
    first.element.hidden = !was || found === clean;
    if (first.element.hidden) return null;
    showPlanes(first.under, planes, size);
    veil(first.over, ...size, (i) => was[i]);
    return map.reduce((sum, value, i) => sum + Math.abs(value - was[i]), 0) / map.length;
  }

  /** @returns what is told of it: the first class, and the one before the brush */
  function draw(given) {
    const { found, clean, manifest, answers } = given, moved = drawMaps(given), asked = manifest.answers[answers];
    if (!asked) return { moved };
    const { output, classes, about } = asked, nameOf = (each) => classes?.[each] ?? `class ${each}`;
    const chances = softmax(Array.from(found.outputs[output].data));
    const before = clean && found !== clean && softmax(Array.from(clean.outputs[output].data));
    const first = saidName(chances, nameOf, asked), order = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]);
    said.textContent = first.known ? first.name : "I do not know.";
    why.textContent = first.known
      ? `with probability ${first.chance.toFixed(2)}${first.of ? ", which several classes of this kind share" : ""}`
      : `Its best guess is ${first.of}, ${first.chance.toFixed(2)}. A name is said from ${asked.least} on.`;
    bars.forEach(({ name, bar, was, chance, element }, i) => {
      const each = order[i];
      element.hidden = each === undefined;
      if (element.hidden) return;
      name.textContent = nameOf(each);
      element.classList.toggle("vb-most", i === 0);
      bar.style.width = `${100 * chances[each]}%`;
      was.hidden = !before;
      if (before) was.style.left = `calc(${before[each]} * (100% - 3px))`;
      chance.textContent = chances[each].toFixed(2);
    });
    fitted.textContent = asked.least ? about : `${about} It must choose one of its classes, even where none fits.`;
    return { ...first, moved, was: before && saidName(before, nameOf, asked).name };
  }

  /** Name the heads that there are to choose among. */
  function name({ answers }, chosen) {
    const offered = Object.entries(answers);
    select.replaceChildren(...offered.map(([value, { label: words }]) => node("option", { value }, words)));
    select.value = chosen;
    select.hidden = offered.length < 2;
  }
  return { draw, name, maps: [now.element, first.element],
    classes: [label("What is it?"), said, why, ...bars.map(({ element }) => element), select, fitted] };
}
