import { node, set, stage, heat, paint, halftone, grid } from "./shared.js";
import { load, read, softmax } from "./vision_transformer.js";

// The pad keeps a fine bitmap under its pixels, so that strokes get the grey edges of the data.
// With this brush they also have its ink: a mean level of 4.9, half of the pixels touched.
const FINE = 4, BRUSH = 2.4;

function fineBitmap([rows, columns]) {
  const high = rows * FINE, wide = columns * FINE, ink = new Float32Array(high * wide);
  /** Draw from one point to another, in fine pixels. */
  const stroke = (from, to) => {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    for (let y = 0; y < high; y++) {
      for (let x = 0; x < wide; x++) {
        const [px, py] = [x + 0.5 - from[0], y + 0.5 - from[1]];
        const along = Math.max(0, Math.min(1, (px * dx + py * dy) / (dx * dx + dy * dy || 1)));
        const away = Math.hypot(px - along * dx, py - along * dy);
        const wet = Math.max(0, Math.min(1, BRUSH + 0.5 - away));
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
 *   examples: {pixels: number[], picture: string, label: number}[],
 *   weights: [string, number[]][], values: string}} data
 */
export function render(root, data) {
  const model = load(data);
  const [rows, columns] = data.size;
  const [down, across] = [rows / data.patch[0], columns / data.patch[1]];
  const color = heat(data.ramp);
  const bitmap = fineBitmap(data.size);
  const state = { pixels: [], example: 0, look: `${data.depth - 1} mean` };

  const cut = () => node("div", {
    class: "vb-cut", style: `background-size: ${100 / across}% ${100 / down}%`,
  });
  const ink = node("canvas", { "aria-hidden": "true" });
  const cells = grid({
    rows, columns, control: "pad", choice: false,
    label: "drawing pad; the arrow keys walk, space puts ink down or lifts it",
    name: (row, column) => `row ${row + 1}, column ${column + 1}`,
    pick: (row, column, event) => {
      if (event.detail) return; // a pointer has drawn already; this is for the keyboard
      const pixels = [...state.pixels], i = row * columns + column;
      pixels[i] = pixels[i] > 127 ? 0 : 255;
      bitmap.fill(pixels);
      drawn(pixels);
    },
  });
  const pad = node("div", { class: "vb-picture vb-pad", style: `--rows: ${rows}; --columns: ${columns}` },
    ink, cut(), cells.element);

  let last = null;
  const place = (event) => {
    const box = pad.getBoundingClientRect();
    return [columns * FINE * (event.clientX - box.left) / box.width,
      rows * FINE * (event.clientY - box.top) / box.height];
  };
  const draw = (event) => {
    const at = place(event);
    bitmap.stroke(last ?? at, at);
    last = at;
    drawn(bitmap.pixels(data.levels));
  };
  set(pad, {
    onpointerdown: (event) => {
      if (event.button) return;
      pad.setPointerCapture(event.pointerId);
      if (state.example !== null) bitmap.fill(Array(rows * columns).fill(0)); // a digit of one's own
      last = null;
      draw(event);
    },
    onpointermove: (event) => last && draw(event),
    onpointerup: () => (last = null),
    onpointercancel: () => (last = null),
  });

  const looks = node("canvas", { "aria-hidden": "true" });
  const dots = node("canvas", { "aria-hidden": "true", class: "vb-dots" });
  const seen = node("div", { class: "vb-picture", style: `aspect-ratio: ${columns} / ${rows}` },
    looks, dots, cut());
  const chooser = node("select", {
    "data-control": "look", "aria-label": "layer, and one head or the mean of all",
    onchange: () => { state.look = chooser.value; update(); },
  });
  for (let layer = data.depth - 1; layer >= 0; layer--) {
    const choices = [["mean", "mean"],
      ...Array.from({ length: data.heads }, (_, head) => [head, `head ${head + 1}`])];
    chooser.append(node("optgroup", { label: `layer ${layer + 1} of ${data.depth}` },
      ...choices.map(([value, words]) =>
        node("option", { value: `${layer} ${value}` }, `layer ${layer + 1}, ${words}`))));
  }
  const own = node("div", { class: "vb-note" });

  const bars = data.classes.map((name) => {
    const bar = node("i"), chance = node("span");
    const element = node("div", { class: "vb-class" }, node("span", {}, name),
      node("span", { class: "vb-track" }, bar), chance);
    return { element, bar, chance };
  });
  const examples = grid({
    rows: 1, columns: data.examples.length, control: "example", label: "held-out examples",
    name: (_, i) => `example ${i + 1}`, pick: (_, i) => show(i),
  });
  examples.element.classList.add("vb-chooser");
  examples.cells.forEach((cell, i) => cell.append(node("img", { src: data.examples[i].picture, alt: "" })));
  const button = (control, words, onclick) =>
    node("button", { type: "button", "data-control": control, onclick }, words);
  const clear = button("clear", "Clear the pad", () => {
    bitmap.fill(Array(rows * columns).fill(0));
    drawn(bitmap.pixels(data.levels));
  });
  const reset = button("reset", "Reset", () => {
    chooser.value = state.look = `${data.depth - 1} mean`;
    show(0);
  });
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function show(example) {
    const { pixels } = data.examples[example];
    bitmap.fill(pixels);
    Object.assign(state, { pixels, example });
    update();
  }
  function drawn(pixels) {
    Object.assign(state, { pixels, example: null });
    update();
  }

  function update() {
    const { pixels, example, look } = state;
    paint(ink, rows, columns, (row, column) => Array(3).fill(pixels[row * columns + column]));
    halftone(dots, rows, columns, pixels);
    cells.cells.forEach((cell, i) => cell.setAttribute("aria-pressed", pixels[i] > 127));

    const { logits, maps } = read(pixels, model);
    const [layer, which] = look.split(" ");
    const chosen = which === "mean" ? maps[layer] : [maps[layer][which]];
    const weights = chosen[0][0].map((_, key) =>
      chosen.reduce((sum, map) => sum + map[0][key], 0) / chosen.length);
    const top = Math.max(...weights.slice(1));
    paint(looks, down, across, (row, column) => color(weights[1 + row * across + column], top));
    own.textContent = `${weights[0].toFixed(2)} of the weight stays on the class token; ` +
      `the brightest patch has ${top.toFixed(2)}, an equal share is ${(1 / weights.length).toFixed(2)}`;

    const chances = softmax(logits);
    const best = chances.indexOf(Math.max(...chances));
    bars.forEach(({ element, bar, chance }, i) => {
      element.classList.toggle("vb-most", i === best);
      bar.style.width = `${100 * chances[i]}%`;
      chance.textContent = chances[i].toFixed(2);
    });
    examples.choose(example ?? -1);
    const says = `The model reads ${data.classes[best]} with probability ${chances[best].toFixed(2)}`;
    const meant = example === null ? null : data.examples[example].label;
    readout.replaceChildren(
      pixels.some((p) => p) ? "" : "The pad is empty, and the model must still choose. ",
      meant === null ? `${says}.` : `${says}; its writer meant ${data.classes[meant]}`,
      meant === null ? "" : meant === best ? "." : node("b", {}, ": a mistake."));
    Object.assign(root, { logits: Array.from(logits), maps }); // for the console, and for tests
    const summed = pixels.reduce((hash, p) => (hash * 31 + p) >>> 0, 7);
    root.dataset.state = `pad=${summed.toString(16)} example=${example ?? "none"} look=${look}`;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-label" }, "Held-out digits, or draw your own"), examples.element,
    node("div", { class: "vb-reader" },
      node("div", { class: "vb-wide" }, node("div", { class: "vb-label" }, "Draw here, from edge to edge"), pad,
        node("div", { class: "vb-controls" }, clear, reset),
        node("div", { class: "vb-note" }, `${columns} × ${rows} px, ${data.levels + 1} grey levels, ` +
          `cut into ${down} × ${across} patches`)),
      node("div", {}, node("div", { class: "vb-label" }, "Where it looks"), seen,
        chooser, own),
      node("div", {}, node("div", { class: "vb-label" }, "What it reads"),
        ...bars.map((bar) => bar.element))),
    readout);
  show(0);
}
