import { between, paint, rgb } from "../parts/paint.js";
import { inWords, place } from "../parts/numbers.js";
import { canvas, div, label, labelled, note, track } from "../parts/parts.js";
import { node } from "../parts/page.js";
import { live } from "../parts/live.js";
import { cellPad } from "../parts/cell_pad.js";

const MOST_CELLS = 16; // a side; on a larger grid a cell stands for several tokens
const PACE = 500; // ms a layer

/** After how many layers one token has heard of another; tokens are counted row by row. */
export function arrival(kind, side, block, one, other) {
  if (one === other) return 0;
  const [row, column] = place(one, side), [r, c] = place(other, side);
  if (kind === "rows") return row === r ? 1 : Infinity;
  if (kind === "axial") return row === r ? 1 : 2;
  if (kind === "cross") return row === r || column === c ? 1 : 2;
  if (kind === "near") return Math.max(Math.abs(row - r), Math.abs(column - c));
  if (kind === "blocks") {
    return [[row, r], [column, c]].every(([a, b]) => Math.floor(a / block) === Math.floor(b / block)) ? 1 : Infinity;
  }
  return kind === "swin" ? Math.max(moving(row, r, side, block), moving(column, c, side, block)) : 1;
}

/** Layers of windows, each second one moved by half a window, until news has come from one row to another. */
function moving(to, from, side, block) {
  let low = from, high = from, layers = 0;
  for (; to < low || to > high; layers++) {
    const shift = layers % 2 ? block / 2 : 0;
    const start = (at) => Math.floor((at + shift) / block) * block - shift;
    low = Math.max(0, start(low));
    high = Math.min(side, start(high) + block) - 1;
  }
  return layers;
}
export const hears = (kind, side, block, one, other, layers) =>
  arrival(kind, side, block, one, other) <= layers;

/** Scores and weighted values of one layer, two multiply-adds a head number as one pair. */
export function pairs(kind, side, { block, keys, features }) {
  if (kind === "near") return (3 * side - 2) ** 2; // at the edge a token has fewer neighbours
  const read = {
    all: side * side, rows: side, axial: side, cross: 2 * side - 1, blocks: block * block, swin: block * block,
    linformer: 2 * keys, performer: 2 * features,
  };
  return side * side * read[kind];
}

/** The token at the same place of another grid: a corner stays a corner. */
export function moved(token, from, to) {
  const [row, column] = place(token, from).map((x) => Math.round(x * (to - 1) / (from - 1)));
  return row * to + column;
}

/**
 * @param {HTMLElement} root
 * @param {{sides: number[], side: number, pattern: string, token: number, layers: number,
 *   most: number, block: number, keys: number, features: number, names: Record<string, string>,
 *   nobody_left_out: Record<string, string>, colors: Record<string, string>, task: string}} data
 */
export function render(root, data) {
  const { sides, block, names } = data, others = Object.entries(data.nobody_left_out);
  const shades = Object.fromEntries(Object.entries(data.colors).map(([k, v]) => [k, rgb(v)]));
  const figure = live(root, data,
    { side: data.side, pattern: data.pattern, painted: [data.token], layers: data.layers });
  const { state, change } = figure, said = (number) => number.toLocaleString("en");

  const costs = Array.from({ length: 2 + others.length }, () => {
    const name = node("span"), number = node("span"), bar = node("i", { class: "vb-cost" });
    return { name, number, bar, element: div("vb-price", name, number, track(bar)) };
  });
  const ink = canvas(), map = canvas(), pads = div("vb-hearing"), told = note();
  const heading = label(), own = note();

  let pad = null, built = 0;
  const cellsOf = (side) => Math.min(side, MOST_CELLS);
  const tokenOf = (cell) => moved(cell, cellsOf(state.side), state.side);
  /** A pad to paint who has news, one cell a token or one for a square of them. */
  function build(side) {
    built = side;
    const count = cellsOf(side);
    pad = cellPad({
      rows: count, columns: count, control: "token", label: "tokens with news; space paints one or wipes it",
      name: (row, column) => `token in ${inWords(tokenOf(row * count + column), side)}`,
      painted: (cell) => state.painted.includes(tokenOf(cell)),
      paint: (cells, on) => {
        const painted = new Set(state.painted);
        for (const token of cells.map(tokenOf)) on ? painted.add(token) : painted.delete(token);
        change({ painted: [...painted].sort((a, b) => a - b) });
      },
    }, ink);
    pads.replaceChildren(pad.element);
    own.textContent = side > count ? `a cell stands for ${side / count} × ${side / count} tokens, one of them has news` : "";
  }

  let known = {};
  /** Layers until each token has heard some news. */
  function arrivals({ pattern, side, painted }) {
    const key = `${pattern} ${side} ${painted}`;
    if (known.key !== key) {
      known = { key, when: Float64Array.from({ length: side * side }, (_, token) => painted.reduce(
        (least, from) => Math.min(least, arrival(pattern, side, block, token, from)), Infinity)) };
    }
    return known.when;
  }
  const reaches = (when, layers) => when.reduce((sum, each) => sum + (each <= layers), 0);

  let timer = null;
  const stop = () => (timer = clearInterval(timer));
  const play = figure.button("play", "Play", () => {
    stop();
    change({ layers: 0 });
    timer = setInterval(() => {
      const last = Math.min(data.most, Math.max(1, ...arrivals(state).filter(Number.isFinite)));
      if (state.layers >= last || !root.isConnected) return stop();
      change({ layers: state.layers + 1 });
    }, PACE);
  });

  function draw({ side, pattern, painted, layers }) {
    const tokens = side * side, end = side - 1;
    if (built !== side) build(side);
    pad.show();
    const count = cellsOf(side), when = arrivals(state);
    paint(ink, count, count, (cell) => painted.includes(tokenOf(cell)) ? shades.own : shades.none);
    const late = [shades.late, shades.own], lit = (layer) => between(late, 1 / Math.max(layer, 1));
    paint(map, side, side, (token) => when[token] > layers ? shades.none
      : when[token] === 0 ? shades.own : lit(when[token]));
    const number = reaches(when, layers);
    heading.textContent = `Heard after ${layers} layer${layers === 1 ? "" : "s"}`;
    told.textContent = `${said(number)} of ${said(tokens)} tokens`;

    const cost = pairs(pattern, side, data), all = tokens * tokens;
    const bars = [["all pairs", all], [names[pattern], cost],
      ...others.map(([kind, name]) => [name, pairs(kind, side, data)])];
    const longest = Math.max(...bars.map(([, count]) => count));
    bars.forEach(([name, count], i) => {
      costs[i].name.textContent = name;
      costs[i].number.textContent = said(count);
      costs[i].bar.style.width = `${100 * count / longest}%`;
    });
    const share = cost < all ? `${(100 * cost / all).toPrecision(2)} % of all pairs`
      : cost > all ? `${(cost / all).toPrecision(2)} times all pairs` : "as many as all pairs";
    const [row, column] = place(painted[0] ?? 0, side);
    const opposite = (end - row) * side + end - column, corner = [row, column].every((x) => x === 0 || x === end);
    const single = painted.length === 1, far = when[opposite];
    const through = Object.keys(names).filter((kind) => hears(kind, side, block, opposite, painted[0], 2));
    const least = Math.min(...through.map((kind) => pairs(kind, side, data)));
    const reached = single && corner && layers === 2 && through.includes(pattern) && cost === least;
    const news = !painted.length ? "Nobody has news: paint a token. "
      : !single ? `News of ${said(painted.length)} tokens has reached ${said(number)} of ${said(tokens)}. `
      : `The token opposite of row ${row + 1}, column ${column + 1} ` +
        `${Number.isFinite(far) ? `hears after ${far} layer${far === 1 ? "" : "s"}` : "never hears"}. `;
    return {
      says: `${news}A layer computes ${said(cost)} pairs, ${share}. `,
      reached: reached && `at ${side} × ${side} no pattern of the list carries word from corner to corner for less.`,
      told: { heard: [1, 2].map((layers) => [...when].map((each) => each <= layers)), cost },
      named: { side, pattern, painted: painted.join(",") || "none", layers },
    };
  }

  const toSide = (side) => ({ side, painted: [...new Set(state.painted.map((token) =>
    moved(moved(token, state.side, cellsOf(side)), cellsOf(side), side)))].sort((a, b) => a - b) });
  figure.stage(draw,
    div("vb-controls vb-patterns",
      figure.slider("side", "Grid", { max: sides.length - 1, at: () => sides.indexOf(state.side),
        part: (i) => toSide(sides[i]), tell: () => `${state.side} × ${state.side}` }),
      figure.slider("layers", "Layers", { max: data.most, tell: String }),
      figure.select("pattern", "what a token reads", Object.entries(names)),
      play, figure.reset),
    div("vb-pair vb-ears",
      labelled("Paint who has news", pads, own),
      div("", heading, div("vb-image vb-hearing", map), told)),
    node("div", { class: "vb-label vb-where" }, "What one layer computes, in pairs"),
    ...costs.map(({ element }) => element));
}
