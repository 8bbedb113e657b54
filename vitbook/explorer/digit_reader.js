import { node, set } from "./page.js";
import { halftone, heat, paint } from "./paint.js";
import { argmax, clamp, inside, inWords, softmax } from "./numbers.js";
import { canvas, classBars, div, grid, image, label, labelled, photo } from "./parts.js";
import { live } from "./live.js";
import { load, read } from "./vision_transformer.js";

// The pad keeps a fine bitmap under its pixels, so that strokes get the grey edges of the data.
// With this brush they also have its ink: a mean level of 4.9, half of the pixels touched.
const FINE = 4, BRUSH = 2.4;

export function fineBitmap([rows, columns]) {
  const high = rows * FINE, wide = columns * FINE, ink = new Float32Array(high * wide);
  /** Draw from one point to another, in fine pixels. */
  const stroke = (from, to) => {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    for (let y = 0; y < high; y++) {
      for (let x = 0; x < wide; x++) {
        const [px, py] = [x + 0.5 - from[0], y + 0.5 - from[1]];
        const along = clamp((px * dx + py * dy) / (dx * dx + dy * dy || 1), 0, 1);
        const away = Math.hypot(px - along * dx, py - along * dy);
        const wet = clamp(BRUSH + 0.5 - away, 0, 1);
        ink[y * wide + x] = Math.max(ink[y * wide + x], wet);
      }
    }
  };
  const fill = (pixels) => ink.forEach((_, i) => {
    const row = Math.floor(i / wide / FINE), column = Math.floor(i % wide / FINE);
    ink[i] = pixels[row * columns + column] / 255;
  });
  /** Sums over blocks of fine pixels, in whole levels, as 0..255. */
  const pixels = (levels) => Array.from({ length: rows * columns }, (_, i) => {
    let sum = 0;
    for (let j = 0; j < FINE * FINE; j++) {
      const y = Math.floor(i / columns) * FINE + Math.floor(j / FINE);
      sum += ink[y * wide + (i % columns) * FINE + j % FINE];
    }
    return Math.round(Math.round(sum / FINE / FINE * levels) * 255 / levels);
  });
  return { stroke, fill, pixels };
}

/**
 * @param {HTMLElement} root
 * @param {{size: [number, number], patch: [number, number], width: number, heads: number,
 *   depth: number, levels: number, classes: string[], ramp: string[], task: string,
 *   examples: {pixels: number[], image: string, label: number}[],
 *   weights: [string, number[]][], values: string}} data
 */
export function render(root, data) {
  const model = load(data);
  const [rows, columns] = data.size;
  const [down, across] = [rows / data.patch[0], columns / data.patch[1]];
  const color = heat(data.ramp), empty = Array(rows * columns).fill(0);
  const bitmap = fineBitmap(data.size);
  const example = (i) => ({ pixels: data.examples[i].pixels, example: i });
  const figure = live(root, data, { ...example(0), look: `${data.depth - 1} mean` });
  const { state, change } = figure, drawn = (pixels) => change({ pixels, example: null });

  const cut = () => node("div", {
    class: "vb-cut", style: `background-size: ${100 / across}% ${100 / down}%`,
  });
  const ink = canvas();
  const cells = grid({
    rows, columns, control: "pad", choice: false,
    label: "drawing pad; the arrow keys walk, space puts ink down or lifts it",
    name: (row, column) => inWords(row * columns + column, columns),
    pick: (row, column, event) => {
      if (event.detail) return; // a pointer has drawn already; this is for the keyboard
      const pixels = [...state.pixels], i = row * columns + column;
      pixels[i] = pixels[i] > 127 ? 0 : 255;
      bitmap.fill(pixels);
      drawn(pixels);
    },
  });
  const pad = node("div", { class: "vb-image vb-pad", style: `--rows: ${rows}; --columns: ${columns}` },
    ink, cut(), cells.element);

  let last = null;
  const stroke = (event) => {
    const [x, y] = inside(event, pad.getBoundingClientRect());
    const at = [columns * FINE * x, rows * FINE * y];
    bitmap.stroke(last ?? at, at);
    last = at;
    drawn(bitmap.pixels(data.levels));
  };
  const lift = () => (last = null);
  set(pad, {
    onpointerdown: (event) => {
      if (event.button) return;
      pad.setPointerCapture(event.pointerId);
      if (state.example !== null) bitmap.fill(empty); // a digit of one's own
      lift();
      stroke(event);
    },
    onpointermove: (event) => last && stroke(event),
    onpointerup: lift, onpointercancel: lift,
  });

  const looks = canvas(), dots = canvas("vb-dots"), own = div("vb-note");
  const choices = [["mean", "mean"],
    ...Array.from({ length: data.heads }, (_, head) => [head, `head ${head + 1}`])];
  const chooser = figure.select("look", "layer, and one head or the mean of all",
    Array.from({ length: data.depth }, (_, i) => data.depth - 1 - i).map((layer) =>
      [`layer ${layer + 1} of ${data.depth}`, choices.map(([value, words]) =>
        [`${layer} ${value}`, `layer ${layer + 1}, ${words}`])]));
  const bars = classBars(data.classes);
  const examples = figure.chooser("example", "held-out examples",
    data.examples.map((_, i) => `example ${i + 1}`),
    { face: (i) => photo(data.examples[i].image), at: () => state.example ?? -1, part: example });
  const clear = figure.button("clear", "Clear the pad", () => {
    bitmap.fill(empty);
    drawn(empty);
  });

  function draw({ pixels, example, look }) {
    paint(ink, rows, columns, (pixel) => Array(3).fill(pixels[pixel]));
    halftone(dots, rows, columns, pixels);
    cells.cells.forEach((cell, i) => cell.setAttribute("aria-pressed", pixels[i] > 127));

    const { logits, maps } = read(pixels, model);
    const [layer, which] = look.split(" ");
    const chosen = which === "mean" ? maps[layer] : [maps[layer][which]];
    const weights = chosen[0][0].map((_, key) =>
      chosen.reduce((sum, map) => sum + map[0][key], 0) / chosen.length);
    const top = Math.max(...weights.slice(1));
    paint(looks, down, across, (patch) => color(weights[1 + patch], top));
    own.textContent = `${weights[0].toFixed(2)} of the weight stays on the class token; ` +
      `the brightest patch has ${top.toFixed(2)}, an equal share is ${(1 / weights.length).toFixed(2)}`;

    const chances = softmax(logits), best = argmax(chances);
    bars.show(chances);
    const says = `The model reads ${data.classes[best]} with probability ${chances[best].toFixed(2)}`;
    const meant = example === null ? null : data.examples[example].label;
    const summed = pixels.reduce((hash, p) => (hash * 31 + p) >>> 0, 7);
    return {
      says: [pixels.some((p) => p) ? "" : "The pad is empty, and the model must still choose. ",
        meant === null ? `${says}.` : `${says}; its writer meant ${data.classes[meant]}`,
        meant === null ? "" : meant === best ? "." : node("b", {}, ": a mistake.")],
      told: { logits: Array.from(logits), maps },
      named: { pad: summed.toString(16), example: example ?? "none", look },
    };
  }

  figure.stage(draw,
    label("Held-out digits, or draw your own"), examples,
    div("vb-reader",
      div("vb-wide", label("Draw here, from edge to edge"), pad,
        div("vb-controls", clear, figure.reset),
        div("vb-note", `${columns} × ${rows} px, ${data.levels + 1} grey levels, ` +
          `cut into ${down} × ${across} patches`)),
      labelled("Where it looks", image(rows, columns, looks, dots, cut()), chooser, own),
      labelled("What it reads", ...bars.elements)));
}
