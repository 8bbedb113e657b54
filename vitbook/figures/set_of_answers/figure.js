import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { clamp, shareTold } from "../parts/numbers.js";
import { canvas, div, drag, grid, image, label, note, track } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { notFetched, shelf } from "../parts/pieces.js";
import { address, linkTo, restored } from "../parts/address.js";
import { load } from "../parts/vision_transformer.js";
import { detect } from "./detector.js";
import {
  answersState, bestOf, cornersOf, cutOf, freest, laidOut, LARGEST, MOST_DIGITS, overlooked, patchOf, resized,
  SMALLEST, tellersOf, unpackedSizes, within, wordsOfPlaced,
} from "./canvas.js";

const GLOW = [214, 118, 0]; // under white ink: where a query looks most
const USUAL = 15; // tenths: the size of a digit from the tray
const TAG = [0.13, 0.08]; // room for a tag, in shares of the canvas on a phone
const STRIDE = 5; // pixels that an arrow key moves a digit with shift held

/**
 * @param {HTMLElement} root
 * @param {{digits: [number, number, string][][], names: string[], classes: string[], side: number,
 *   size: [number, number], patch: [number, number], step: [number, number], grid: [number, number],
 *   heads: number, depth: number, queries: number, colors: string[], weights: [string, number[]][],
 *   values: string, goal: boolean, task: string,
 *   start: {placed: number[][], held: number, query: number}, answers: object}} data
 *   `digits` by number and size; `values` is the key of the piece that holds the weights.
 */
export function render(root, data) {
  const { side, names, classes, queries, colors } = data, [rows, columns] = data.grid;
  const sizes = unpackedSizes(data.digits);
  const figure = live(root, data, data.start), { state, change } = figure;
  const every = (count, make) => Array.from({ length: count }, (_, i) => make(i));
  let trouble = "";
  const ask = shelf(root, () => change({}), (reason) => {
    trouble = notFetched(reason);
    change({});
  });

  const first = JSON.stringify(data.start.placed);
  let last = {};
  /** What the queries say; nothing until the model has come. */
  function said(placed, pixels) {
    const key = JSON.stringify(placed);
    if (key === first) return data.answers;
    if (last.key === key) return last.found;
    const model = ask(data.values, (raw) => load(data, raw));
    if (!model) return null;
    last = { key, found: detect(pixels, model) };
    return last.found;
  }

  const put = (i, one) => change({
    placed: state.placed.map((other, j) => i === j ? within(sizes, side, one) : other), held: i,
  });
  const shift = (i, right, down) => {
    const [which, left, top, tenths] = state.placed[i];
    put(i, [which, left + right, top + down, tenths]);
  };
  const resize = (i, tenths) => put(i, resized(sizes, side, state.placed[i], clamp(tenths, SMALLEST, LARGEST)));
  const remove = (i) => change({
    placed: state.placed.filter((_, j) => j !== i), held: Math.min(i, state.placed.length - 2),
  });
  const choose = (query) => change({ query: state.query === query ? -1 : query });

  const tray = grid({
    rows: 1, columns: names.length, control: "tray", label: "digits to add", choice: false,
    name: (_, i) => `add a ${names[i]}`,
    pick: (_, i) => state.placed.length < MOST_DIGITS && change({
      placed: [...state.placed, freest(sizes, side, state.placed, i, USUAL)], held: state.placed.length,
    }),
  });
  tray.element.classList.add("vb-chooser", "vb-tray");
  tray.cells.forEach((cell, i) => {
    const face = canvas(), { height, width, pixels } = sizes[i][LARGEST - SMALLEST];
    paint(face, side / 2, side / 2, (_, row, column) => {
      const [y, x] = [row - Math.floor((side / 2 - height) / 2), column - Math.floor((side / 2 - width) / 2)];
      return Array(3).fill(y >= 0 && y < height && x >= 0 && x < width ? pixels[y * width + x] : 0);
    });
    cell.append(face);
  });

  const handles = every(MOST_DIGITS, (i) => {
    const handle = node("button", { type: "button", class: "vb-digit" });
    let grip = null; // where a pointer took hold of it, in shares of it
    set(handle, {
      onpointerdown: () => (grip = null),
      onkeydown: ({ key }) => {
        const step = { "+": 1, "-": -1 }[key];
        if (step) resize(i, state.placed[i][3] + step);
        if (key !== "Delete" && key !== "Backspace") return;
        remove(i);
        handles[Math.max(state.held, 0)].focus();
      },
    });
    drag(handle, {
      handle,
      move: (across, down) => {
        grip ??= [across, down];
        const { width, height } = patchOf(sizes, state.placed[i]);
        shift(i, Math.round((across - grip[0]) * width), Math.round((down - grip[1]) * height));
      },
      walk: (down, right, { shiftKey }) => shift(i, right * (shiftKey ? STRIDE : 1), down * (shiftKey ? STRIDE : 1)),
    });
    return handle;
  });
  const boxes = every(queries, (i) => node("i", { class: "vb-box", style: `--vb-query: ${colors[i % colors.length]}` }));
  const tags = every(queries, (i) => node("button", {
    type: "button", class: "vb-tag", tabindex: -1, style: `--vb-query: ${colors[i % colors.length]}`,
    onclick: () => choose(i),
  }));
  const sheet = canvas();
  const pad = image(side, side, sheet, ...boxes,
    node("div", { "data-control": "digits", role: "group", "aria-label": "digits on the canvas" }, ...handles), ...tags);
  pad.classList.add("vb-table");

  const size = figure.slider("size", "Size", {
    min: SMALLEST, max: LARGEST, tell: (tenths) => `${(tenths / 10).toFixed(1)} times`,
    at: () => state.placed[state.held]?.[3] ?? USUAL,
    part: (tenths) => state.held < 0 ? {} : {
      placed: state.placed.map((one, i) => i === state.held ? resized(sizes, side, one, tenths) : one),
    },
  });
  const off = figure.button("remove", "Take the dashed one off", () => state.held >= 0 && remove(state.held));
  const link = node("a", { class: "vb-link" }, "Link to this canvas");

  const lines = grid({
    rows: queries, columns: 1, control: "query", label: "queries; a chosen one shows where it looks",
    name: (query) => `q${query}`, pick: choose,
  });
  lines.element.classList.add("vb-lines");
  const told = lines.cells.map((cell, i) => {
    const swatch = node("i", { class: "vb-swatch", style: `background: ${colors[i % colors.length]}` });
    const says = node("span"), bar = node("i"), chance = node("span");
    cell.append(swatch, node("span", {}, `q${i}`), says, track(bar), chance);
    return { says, bar, chance };
  });
  const where = note();

  const at = ([left, top, right, bottom]) => ({
    left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%`,
  });
  function drawAnswers(found, query) {
    const taken = [];
    found.chances.forEach((chances, i) => {
      const { label, chance, sure } = bestOf(chances), ends = cornersOf(found.boxes[i]);
      const words = classes[label] ?? "no object";
      told[i].says.textContent = words;
      told[i].bar.style.width = `${100 * chance}%`;
      told[i].chance.textContent = shareTold(chance);
      set(lines.cells[i], { "aria-label": `q${i}: ${words}, ${shareTold(chance)}` });
      lines.cells[i].classList.toggle("vb-sure", sure);
      boxes[i].classList.toggle("vb-unsure", !sure);
      boxes[i].classList.toggle("vb-looks", i === query);
      Object.assign(boxes[i].style, at(ends));
      tags[i].textContent = `q${i}: ${classes[label] ?? "–"}`;
      boxes[i].hidden = tags[i].hidden = !sure && i !== query;
      if (tags[i].hidden) return;
      // Above its box, or below where there is no room.
      const left = clamp(ends[0], 0, 1 - TAG[0]), high = ends[1] - TAG[1];
      const above = high > 0 && taken.every((other) => Math.abs(other[0] - left) > TAG[0] || Math.abs(other[1] - high) > TAG[1]);
      const top = above ? high : Math.min(ends[3], 1 - TAG[1]);
      taken.push([left, top]);
      Object.assign(tags[i].style, { left: `${100 * left}%`, top: above ? "" : `${100 * top}%`,
        bottom: above ? `${100 * (1 - ends[1])}%` : "" });
    });
  }

  function answerFor(name, query, found) {
    if (query < 0) return `No query answers for the dashed ${name}. `;
    const { label, chance } = bestOf(found.chances[query]);
    return `q${query} answers for the dashed ${name} and says ${classes[label]}, ${shareTold(chance)}. `;
  }

  function draw({ placed, held, query }) {
    const pixels = laidOut(sizes, side, placed), found = said(placed, pixels);
    const look = query >= 0 && found ? found.looks[query] : null, top = look && Math.max(...look);
    paint(sheet, side, side, (i, row, column) => {
      const token = Math.floor(row * rows / side) * columns + Math.floor(column * columns / side);
      const share = look ? look[token] / top : 0, ink = pixels[i] / 255;
      return GLOW.map((light) => light * share * (1 - ink) + 255 * ink);
    });
    const cuts = placed.map((one) => cutOf(sizes, side, one));
    handles.forEach((handle, i) => {
      handle.hidden = i >= placed.length;
      set(handle, { tabindex: handle.hidden ? -1 : 0, "aria-pressed": String(i === held) });
      if (handle.hidden) return;
      const [which, left, up] = placed[i];
      set(handle, { "aria-label": `${names[which]}, ${left} pixels from the left, ${up} from the top; ` +
        "arrow keys move it, plus and minus change its size, delete takes it off" });
      Object.assign(handle.style, at(cuts[i]));
    });
    lines.choose(query);
    if (found) drawAnswers(found, query);
    else [...boxes, ...tags].forEach((each) => (each.hidden = true));
    where.textContent = look
      ? `Amber: where q${query} looks, by its attention in the last block, mean of ${data.heads} heads. ` +
        `The brightest of ${rows * columns} tokens has ${top.toFixed(2)}.`
      : "Choose a query, by its line or its box, to see where it looks.";

    const named = { ...wordsOfPlaced(placed, side), held, query };
    linkTo(link, address(root, "answers", named));
    if (!found) return { says: trouble || "The model is being fetched. ", named, told: { pixels, said: null } };
    const tellers = tellersOf(cuts, found), sure = found.chances.filter((chances) => bestOf(chances).sure).length;
    const missed = overlooked(cuts, tellers), many = placed.length === 1 ? "digit" : "digits";
    return {
      says: `${placed.length} ${many}; ${sure} of ${queries} queries say one. ` +
        (held < 0 ? "" : answerFor(names[placed[held][0]], tellers[held], found)),
      named, told: { pixels, said: found, tellers },
      reached: data.goal && missed >= 0 && `no query answers for the ${names[placed[missed][0]]}, and it hardly overlaps another one. ` +
        `There are ${placed.length} digits and ${queries} queries.`,
    };
  }

  figure.stage(draw,
    label("Add a digit"), tray.element,
    div("vb-controls", size, off, figure.reset, link),
    div("vb-answered",
      div("", label("Drag the digits"), pad),
      div("", label(`What queries q0 to q${queries - 1} say: one box each, or no object`), lines.element, where)));
  restored(root, "answers", (text) => answersState(text, sizes, side, queries), change);
}
