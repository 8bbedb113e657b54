import { node } from "../parts/page.js";
import { halftone, heat, paint } from "../parts/paint.js";
import { argmax, softmax } from "../parts/numbers.js";
import { canvas, classBars, div, image, label, labelled, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { address, linkTo, restored } from "../parts/address.js";
import { noDigit, pixelsOf } from "../parts/handprint.js";
import { lettersOf, lettersOfLevels, MOST_POINTS, pixelsOfLetters, strokesOf } from "../parts/ink.js";
import { drawingPad } from "../parts/pad.js";
import { load, read } from "../parts/vision_transformer.js";

const UNREADABLE = "The link's drawing could not be read, so it was left out. ";

/** What a link says of the pad, or null where it cannot be meant. */
export function drawnState(text, { size: [rows, columns], levels, examples, classes, depth, heads }) {
  const said = new URLSearchParams(text), state = {};
  const whole = (key, limit) => {
    const value = said.get(key);
    return value === null ? undefined : /^\d+$/.test(value) && Number(value) < limit ? Number(value) : null;
  };
  const [example, meant, look] = [
    whole("example", examples.length), whole("meant", classes.length), whole("look", depth * (heads + 1))];
  const ink = said.has("ink") ? strokesOf(said.get("ink")) : undefined;
  const pixels = said.has("pixels") ? pixelsOfLetters(said.get("pixels"), rows * columns, levels) : undefined;
  const shown = [example, ink, pixels].filter((each) => each !== undefined);
  if (shown.length > 1 || [...shown, meant, look].includes(null)) return null;
  if (example !== undefined) Object.assign(state, { strokes: [], pixels: examples[example].pixels, example });
  else if (shown.length) Object.assign(state, { strokes: ink ?? [], pixels: pixels ?? null, example: null });
  if (shown.length) state.meant = meant ?? (example === undefined ? null : examples[example].label);
  if (look !== undefined) state.look = lookOf(look, heads);
  return Object.keys(state).length ? state : null;
}
const lookOf = (number, heads) =>
  `${Math.floor(number / (heads + 1))} ${number % (heads + 1) ? number % (heads + 1) - 1 : "mean"}`;

/**
 * @param {HTMLElement} root
 * @param {{size: [number, number], patch: [number, number], width: number, heads: number,
 *   depth: number, levels: number, classes: string[], ramp: string[], task: string,
 *   examples: {pixels: number[], image: string, label: number}[],
 *   weights: [string, number[]][], values: string}} data
 */
export function render(root, data) {
  const model = load(data), { examples, classes, heads, levels } = data;
  const [rows, columns] = data.size, empty = Array(rows * columns).fill(0);
  const [down, across] = [rows / data.patch[0], columns / data.patch[1]];
  const color = heat(data.ramp);
  const example = (i) =>
    ({ pixels: examples[i].pixels, strokes: [], example: i, meant: examples[i].label });
  const figure = live(root, data, { ...example(0), erase: false, look: `${data.depth - 1} mean` });
  const { state, change } = figure;
  let trouble = ""; // said once

  const pad = drawingPad(data.size, {
    ink: () => state, erasing: () => state.erase,
    changed: (ink, full) => {
      if (full) trouble = `A link holds ${MOST_POINTS} points, and the pad no more: erase, or clear it. `;
      // What was meant stays with what is drawn on or erased, and goes with the example.
      const meant = !ink.pixels && state.pixels ? null : state.meant;
      const same = ink.pixels && state.example !== null && ink.pixels.every((p, i) => p === state.pixels[i]);
      change({ ...ink, meant, example: same ? state.example : null });
    },
  });

  const looks = canvas(), dots = canvas("vb-dots"), own = div("vb-note"), nothing = div("vb-note");
  const choices = [["mean", "mean"],
    ...Array.from({ length: heads }, (_, head) => [head, `head ${head + 1}`])];
  const chooser = figure.select("look", "layer, and one head or the mean of all",
    Array.from({ length: data.depth }, (_, i) => data.depth - 1 - i).map((layer) =>
      [`layer ${layer + 1} of ${data.depth}`, choices.map(([value, words]) =>
        [`${layer} ${value}`, `layer ${layer + 1}, ${words}`])]));
  const bars = classBars(classes);
  const held = figure.chooser("example", "held-out examples", examples.map((_, i) => `example ${i + 1}`),
    { face: (i) => photo(examples[i].image), at: () => state.example ?? -1, part: example });
  const erase = figure.toggle("erase", "Eraser");
  const clear = figure.button("clear", "Clear the pad", () =>
    change({ pixels: null, strokes: [], example: null, meant: null, erase: false }));
  const meant = figure.chooser("meant", "the digit that was meant", classes,
    { face: (i) => classes[i], kind: "vb-choice", at: () => state.meant ?? -1 });
  const link = node("a", { class: "vb-link" }, "Link to this drawing");

  function draw({ pixels: shown, strokes, example, meant, erase, look }) {
    const pixels = strokes.length ? pixelsOf(strokes, data.size, levels) : shown ?? empty;
    const why = strokes.length || !pixels.some((p) => p) ? noDigit(strokes) : "", none = why !== "";
    pad.show();
    halftone(dots, rows, columns, pixels);

    const { logits, maps } = none ? { logits: [], maps: [] } : read(pixels, model);
    const [layer, which] = look.split(" ");
    looks.hidden = none;
    own.textContent = "";
    if (!none) {
      const chosen = which === "mean" ? maps[layer] : [maps[layer][which]];
      const weights = chosen[0][0].map((_, key) =>
        chosen.reduce((sum, map) => sum + map[0][key], 0) / chosen.length);
      const top = Math.max(...weights.slice(1));
      paint(looks, down, across, (patch) => color(weights[1 + patch], top));
      own.textContent = `${weights[0].toFixed(2)} of the weight stays on the class token; ` +
        `the brightest patch has ${top.toFixed(2)}, an equal share is ${(1 / weights.length).toFixed(2)}`;
    }

    const chances = none ? classes.map(() => 0) : softmax(logits), best = argmax(chances);
    bars.show(chances);
    for (const bar of bars.elements) bar.hidden = none;
    nothing.textContent = none ? "No digit" : "";
    const from = { ...(strokes.length ? { ink: lettersOf(strokes) } : example !== null ? { example }
      : { pixels: lettersOfLevels(pixels, levels) }), ...(meant !== null && !none && { meant }) };
    linkTo(link, address(root, "drawing",
      { ...from, look: Number(layer) * (heads + 1) + (which === "mean" ? 0 : Number(which) + 1) }));

    const truth = example === null ? meant : examples[example].label;
    const judged = !none && truth !== null, fooled = judged && truth !== best;
    const hint = !judged ? ". Which digit was meant? Choose it below" : example === null
      ? `; ${classes[truth]} was meant`
      : `; its writer meant ${classes[truth]}${meant === truth ? "" : `, not ${classes[meant]}`}`;
    const told = [trouble, pad.penDown() ? "The pen is down. " : "",
      none ? why : `The model reads ${classes[best]} with probability ${chances[best].toFixed(2)}${hint}`,
      judged && !fooled ? ": read right." : fooled && example !== null ? node("b", {}, ": a mistake.") : none ? " " : ". "];
    trouble = "";
    const summed = pixels.reduce((hash, p) => (hash * 31 + p) >>> 0, 7);
    return {
      says: told, reached: fooled && example === null && "the model is fooled.",
      told: { logits: Array.from(logits), maps, pixels },
      named: { pad: summed.toString(16), example: example ?? "none", meant: meant ?? "none", erase, look },
    };
  }

  figure.stage(draw,
    label("Held-out digits, or draw your own"), held,
    div("vb-reader",
      div("vb-wide", label("Draw here: large or small, anywhere"), pad.element,
        div("vb-controls", erase, clear, figure.reset)),
      labelled("What it sees, and where it looks", image(rows, columns, looks, dots,
        node("div", { class: "vb-cut", style: `background-size: ${100 / across}% ${100 / down}%` })),
      div("vb-note", `stretched to one size and set upright, as the training digits were: ${columns} × ${rows} px ` +
        `of ${levels + 1} grey levels, ${down} × ${across} patches`), chooser, own),
      labelled("What it reads", nothing, ...bars.elements)),
    label("Which digit was meant?"), meant, link);
  restored(root, "drawing", (text) => {
    const found = drawnState(text, data);
    if (!found) trouble = UNREADABLE;
    return found ?? {};
  }, change);
}
