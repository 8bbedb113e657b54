import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { argmax, bytes, inWords, softmax } from "../parts/numbers.js";
import { canvas, div, image, label, term, word } from "../parts/parts.js";
import { cellPad, repainted } from "../parts/cell_pad.js";
import { live } from "../parts/live.js";
import { notFetched, shelf } from "../parts/pieces.js";
import { load, read } from "../parts/vision_transformer.js";

const WIDE = 320, TALL = 210, LEFT = 26, TOP = 8, FOOT = 36;

/** Pixels of an image, channel by channel, with the cells in `gone` in one colour. */
export function taken(pixels, { size: [height, width], grid: [rows, columns], mean }, gone) {
  const area = height * width;
  return pixels.map((pixel, i) => {
    const at = i % area, row = Math.floor(at / width * rows / height);
    const cell = row * columns + Math.floor((at % width) * columns / width);
    return gone.has(cell) ? mean[Math.floor(i / area)] : pixel;
  });
}

/**
 * @param {HTMLElement} root
 * @param {{pixels: string, name: string, size: [number, number], grid: [number, number],
 *   mean: number[], patch: [number, number], heads: number, depth: number,
 *   weights: [string, number[]][], values: string, classes: string[], target: number,
 *   names: string[], places: string, curves: string, ends: number[], beat: string, task: string,
 *   start: {gone: number[]}, answer: number[]}} data
 *   `values` is the key of the piece that holds the weights; an end of -1 is none.
 */
export function render(root, data) {
  const { size: [height, width], grid: [rows, columns], target, names, ends } = data;
  const cells = rows * columns, area = height * width, pixels = bytes(data.pixels);
  const places = new Uint16Array(bytes(data.places).buffer), curves = bytes(data.curves);
  const chanceOf = (rival, count) => curves[rival * (cells + 1) + count] / 255;
  const takenBy = (rival, count) => new Set(Array.from({ length: cells }, (_, cell) => cell)
    .filter((cell) => places[rival * cells + cell] < count));
  const figure = live(root, data, data.start), { state, change } = figure;
  let trouble = "", last = {};
  const ask = shelf(root, () => change({}), (reason) => {
    trouble = notFetched(reason);
    change({});
  });

  /** The chances of all classes without these cells; nothing until the model has come. */
  function answers(gone) {
    if (!gone.length) return data.answer;
    const key = gone.join();
    if (last.key === key) return last.found;
    const model = ask(data.values, (raw) => load(data, raw));
    if (!model) return null;
    const { logits } = read(taken(pixels, data, new Set(gone)), model);
    last = { key, found: softmax(Array.from(logits)) };
    return last.found;
  }

  const show = (to, gone) => {
    const shown = taken(pixels, data, gone);
    paint(to, height, width, (i) => [0, 1, 2].map((channel) =>
      shown[(pixels.length > area ? channel : 0) * area + i]));
  };
  const seen = canvas();
  const pad = cellPad({
    rows, columns, control: "gone",
    label: "cells; the arrow keys walk, space takes one away or brings it back",
    name: (row, column) => inWords(row * columns + column, columns),
    painted: (cell) => state.gone.includes(cell),
    paint: (some, on) => change({ gone: repainted(state.gone, some, on) }),
  }, seen);
  set(pad.element, { style: `aspect-ratio: ${width} / ${height}` });

  const x = (count) => LEFT + WIDE * count / cells, y = (chance) => TOP + TALL * (1 - chance);
  const line = (points) => points.map(([count, p]) => `${x(count).toFixed(1)},${y(p).toFixed(1)}`).join(" ");
  const drawn = names.map((_, i) => node("svg:g", { class: `vb-rival-${i % 5}` },
    node("svg:polyline", { class: "vb-curve", points: line(Array.from({ length: cells + 1 },
      (_, count) => [count, chanceOf(i, count)])) }),
    ends[i] < 0 ? "" : node("svg:circle", { class: "vb-end", r: 5, cx: x(ends[i]), cy: y(chanceOf(i, ends[i])) })));
  const trail = new Map(), yours = node("svg:polyline", { class: "vb-curve vb-yours" });
  const dot = node("svg:circle", { r: 7, class: "vb-dot vb-own" });
  const plot = node("svg:svg", {
    viewBox: `0 0 ${LEFT + WIDE + 10} ${TOP + TALL + FOOT}`, "aria-hidden": "true",
  },
  node("svg:rect", { class: "vb-frame", x: LEFT, y: TOP, width: WIDE, height: TALL }),
  word({ x: LEFT - 6, y: TOP + 10, "text-anchor": "end" }, "1"),
  word({ x: LEFT - 6, y: TOP + TALL, "text-anchor": "end" }, "0"),
  word({ x: LEFT, y: TOP + TALL + 15 }, "no cell gone"),
  word({ x: LEFT + WIDE, y: TOP + TALL + 15, "text-anchor": "end" }, `all ${cells}`),
  word({ x: LEFT, y: TOP + TALL + 31 }, `probability of ${data.classes[target]}; a dot: the class is lost`),
  ...drawn, yours, dot);

  const rivals = names.map((name, i) => {
    const picture = canvas(), chance = node("span", { class: "vb-note" });
    const element = div(`vb-rival-${i % 5}`, label(node("i"), name), image(height, width, picture), chance);
    return { picture, chance, element };
  });
  const terms = [term(`probability of ${data.classes[target]}`), term("cells you took")];

  function draw({ gone }) {
    const count = gone.length, found = answers(gone), p = found?.[target];
    if (!count) trail.clear();
    if (found) trail.set(count, p);
    show(seen, new Set(gone));
    pad.show();
    set(yours, { points: line([...trail].sort((a, b) => a[0] - b[0])) });
    dot.toggleAttribute("hidden", !found);
    if (found) set(dot, { cx: x(count), cy: y(p) });
    rivals.forEach(({ picture, chance }, i) => {
      show(picture, takenBy(i, count));
      const ended = ends[i] >= 0 && ends[i] <= count;
      chance.textContent = ended ? `ended it after ${ends[i]}` : chanceOf(i, count).toFixed(2);
    });
    terms[0].say(found ? p.toFixed(2) : "…");
    terms[1].say(`${count} of ${cells}`);
    const now = found && argmax(found), end = ends[names.indexOf(data.beat)];
    const ended = found && now !== target;
    const says = !found ? trouble || "The model is being fetched. "
      : ended ? `You ended it after ${count} ${count > 1 ? "cells" : "cell"}: the model now says ${data.classes[now]}, ${found[now].toFixed(2)}. `
      : `The model says ${data.classes[target]}, ${p.toFixed(2)}. ` +
        (count ? "" : `Click or drag on ${data.name} to take cells away. `);
    return {
      says, named: { gone: gone.join(".") || "none" }, told: { found },
      reached: ended && (end < 0 || count < end) &&
        `${count} cells; ${data.beat} needs ${end < 0 ? "all of them and more" : end}.`,
    };
  }

  figure.stage(draw,
    div("vb-controls", figure.reset),
    div("vb-race",
      div("vb-wide", label("Click or drag to take away"), pad.element),
      div("", plot, div("vb-terms", ...terms.map(({ element }) => element)))),
    label("With as many cells gone as you took, the cells that each explanation names first"),
    div("vb-rivals", ...rivals.map(({ element }) => element)));
}
