import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { argmax, bytes, clamp, inWords, place } from "../parts/numbers.js";
import { canvas, div, drag, frame, image, label, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { cosines } from "../parts/pieces.js";
import { veilAt } from "../parts/veil.js";

const WIDE = 300, TALL = 120, LEFT = 34, TOP = 24, FOOT = 22, RIGHT = 8;

const written = (x, y, words, more) => node("svg:text", { class: "vb-told", x, y, ...more }, words);

/** A panel of curves over the blocks; `show` moves its line. */
function plot({ title, top, lines }, blocks) {
  const x = (block) => LEFT + (WIDE * block) / (blocks - 1), y = (value) => TOP + TALL * (1 - value / top);
  const line = node("svg:line", { class: "vb-limit", y1: TOP, y2: TOP + TALL });
  const dots = lines.map(({ color }) => node("svg:circle", { r: 4.5, fill: color }));
  const drawing = node("svg:svg", {
    class: "vb-block-plot", viewBox: `0 0 ${LEFT + WIDE + RIGHT} ${TOP + TALL + FOOT}`, "aria-hidden": "true",
  },
  written(LEFT, 13, title, { "font-weight": 700 }),
  node("svg:rect", { class: "vb-frame", x: LEFT, y: TOP, width: WIDE, height: TALL }),
  ...[0, top].map((value) => written(LEFT - 5, y(value) + (value ? 10 : 0), value, { "text-anchor": "end" })),
  ...[0, blocks - 1].map((block) => written(x(block), TOP + TALL + 15, `block ${block + 1}`,
    { "text-anchor": block ? "end" : "start" })),
  line,
  ...lines.map(({ values, color }) => node("svg:polyline", {
    fill: "none", stroke: color, "stroke-width": 2.5, points: values.map((v, i) => `${x(i)},${y(v)}`).join(" "),
  })), ...dots);
  const key = div("vb-block-key", ...lines.map(({ name, color }) =>
    node("span", {}, node("i", { style: `background: ${color}` }), name)));
  return {
    element: div("", drawing, key),
    show(block) {
      set(line, { x1: x(block), x2: x(block) });
      dots.forEach((dot, i) => set(dot, { cx: x(block), cy: y(lines[i].values[block]) }));
    },
  };
}

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], size: [number, number], grid: [number, number],
 *   components: number, tokens: string[], colors: string[], floor: number,
 *   panels: {title: string, top: number, lines: {name: string, values: number[], color: string}[]}[],
 *   goal: ?[number, number], start: {block: number, photo: number, patch: number}, task: string}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, patches = rows * columns, [height, width] = data.size;
  const blocks = data.tokens.length, names = data.photos.map(([name]) => name);
  const tokens = data.tokens.map((text) => new Int8Array(bytes(text).buffer));
  const colors = data.colors.map(bytes);
  const figure = live(root, data, data.start), { change } = figure;

  const slider = figure.slider("block", "Block",
    { max: blocks - 1, tell: (block) => `${block + 1} of ${blocks}` });
  const panels = data.panels.map((panel) => plot(panel, blocks));
  const veils = names.map(() => canvas("vb-likeness")), faces = names.map(() => canvas());
  const marks = names.map(() => frame(rows, columns)), held = names.map(() => data.start.patch);
  const touch = (i, down, across) => change({
    photo: i, patch: clamp(down, 0, rows - 1) * columns + clamp(across, 0, columns - 1),
  });
  const handles = names.map((name) => node("button", {
    type: "button", class: "vb-touch", "data-control": "patch",
    "aria-label": `framed patch of ${name}; arrow keys move it`,
  }));
  const surface = (i) => {
    const made = image(height, width, photo(data.photos[i][1]), veils[i], marks[i].element, handles[i]);
    drag(made, {
      handle: handles[i],
      move: (across, down) => touch(i, Math.floor(down * rows), Math.floor(across * columns)),
      walk: (down, right) => {
        const [row, column] = place(held[i], columns);
        touch(i, row + down, column + right);
      },
    });
    return made;
  };

  function draw({ block, photo, patch }) {
    const all = tokens[block], from = (photo * patches + patch) * data.components;
    const found = cosines(all.subarray(from, from + data.components), all);
    const best = names.map((_, i) => argmax(found.subarray(i * patches, (i + 1) * patches)));
    const cosine = (i) => found[i * patches + best[i]];
    names.forEach((_, i) => {
      paint(veils[i], rows, columns, (cell) => veilAt((found[i * patches + cell] - data.floor) / (1 - data.floor)));
      paint(faces[i], rows, columns, (cell) => {
        const at = 3 * (i * patches + cell);
        return colors[block].subarray(at, at + 3);
      });
      held[i] = i === photo ? patch : best[i];
      marks[i].put(held[i]);
      const [row, column] = place(held[i], columns);
      Object.assign(handles[i].style, {
        left: `${100 * column / columns}%`, top: `${100 * row / rows}%`,
        width: `${100 / columns}%`, height: `${100 / rows}%`,
      });
    });
    panels.forEach((panel) => panel.show(block));
    const numbers = data.panels.flatMap(({ lines }) => lines.map(({ name, values }) => `${name} ${values[block]}`));
    const others = names.map((_, i) => i).filter((i) => i !== photo)
      .map((i) => `${names[i]} ${cosine(i).toFixed(2)}`);
    const [goal, least] = data.goal ?? [];
    return {
      says: `Block ${block + 1}: ${numbers.join(", ")}. Touched: ${names[photo]}, ${inWords(patch, columns)}. ` +
        (others.length ? `Most similar patch, by cosine: ${others.join(", ")}. ` : ""),
      reached: data.goal && photo !== goal && cosine(goal) >= least &&
        `in block ${block + 1} a patch of ${names[photo]} has one in ${names[goal]} with cosine ${cosine(goal).toFixed(2)}.`,
      told: { cosines: Array.from(found) }, named: { block, photo, patch },
    };
  }

  figure.stage(draw,
    div("vb-controls", slider, figure.reset),
    node("div", { class: "vb-block-photos", style: `--photos: ${names.length}` },
      ...names.map((name, i) => div("", label(name), surface(i), image(height, width, faces[i])))),
    div("vb-block-plots", ...panels.map(({ element }) => element)));
}
