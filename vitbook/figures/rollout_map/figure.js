import { node } from "../parts/page.js";
import { heat, paint } from "../parts/paint.js";
import { argmax, bytes, inWords, weightOf } from "../parts/numbers.js";
import { canvas, div, frame, image, label, note, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { shelf } from "../parts/pieces.js";

/** Maps as they came from Python: of each as many rows of weights over the tokens, of sum 1. */
export function matrices(scales, codes, tokens, rows = tokens) {
  return scales.map((scale, layer) => Array.from({ length: rows }, (_, query) => {
    const from = (layer * rows + query) * tokens;
    const row = Float64Array.from(codes.subarray(from, from + tokens), (b) => weightOf(b, scale));
    const sum = row.reduce((a, b) => a + b);
    return row.map((weight) => weight / sum);
  }));
}

/** A row carried back from the last of these layers to the first: row times all matrices. */
export function carry(row, layers, residual) {
  return layers.reduceRight((carried, map) => {
    const next = carried.map((weight) => residual * weight);
    carried.forEach((weight, query) => {
      if (!weight) return;
      const part = (1 - residual) * weight, read = map[query];
      for (let key = 0; key < next.length; key++) next[key] += part * read[key];
    });
    return next;
  }, row);
}

/** The largest number, in units of the mean. */
export const contrast = (numbers) =>
  Math.max(...numbers) * numbers.length / numbers.reduce((a, b) => a + b);

/**
 * @param {HTMLElement} root
 * @param {{image: string, height: number, width: number, grid: [number, number], prefix: number,
 *   layers: number, scales: number[], codes: string, begun: {scales: number[], codes: string},
 *   classes: string[], weighted: string[],
 *   residual: number, leftOut: [number, number], ramp: string[], task: string,
 *   start: {query: number, depth: number, without: boolean, class: number}}} data
 *   `codes` is the key of the piece that holds the maps; `begun`, the last layer's row and the
 *   rollout's of the class token, are seen until it is there.
 */
export function render(root, data) {
  const [rows, columns] = data.grid, { prefix, layers } = data, patches = rows * columns;
  const [layer, head] = data.leftOut, tokens = prefix + patches;
  const begun = matrices(data.begun.scales, bytes(data.begun.codes), tokens, 1).map(([row]) => row);
  const weighted = data.weighted.map((text) => Array.from(bytes(text), (b) => weightOf(b, 1)));
  const color = heat(data.ramp);
  const figure = live(root, data, data.start), { state, change } = figure;
  let trouble = "";
  const ask = shelf(root, () => change({}), (reason) => {
    trouble = `The maps could not be fetched (${reason}): load the page again.`;
    change({});
  });

  /** The last counted layer's row and the rollout's; nothing while the maps are on their way. */
  function rowsOf({ query, depth, without }) {
    const { start } = data;
    if (query === start.query && depth === start.depth && without === start.without) return begun;
    const maps = ask(data.codes, (codes) => matrices(data.scales, codes, tokens));
    if (!maps) return null;
    const others = maps[layers];
    const counted = maps.slice(0, depth).map((map, i) => (without && i === layer ? others : map));
    const asks = Float64Array.from({ length: tokens }, (_, token) => Number(token === query));
    return [counted[depth - 1][query], carry(asks, counted, data.residual)];
  }
  const first = argmax(begun[1].subarray(prefix));

  const cells = figure.cells("query", rows, columns, { first: prefix });
  const still = photo(data.image);
  still.alt = "the image";
  const panels = ["layer", "rollout", "class"].map((kind) => {
    const name = label(), map = canvas(), asked = frame(rows, columns), bright = note();
    const element = node("div", {}, name, image(data.height, data.width, map, asked.element), bright);
    return { kind, name, map, asked, bright, element };
  });

  function draw({ query, depth, class: chosen }) {
    const through = depth > 1 ? `1–${depth}` : "1", found = rowsOf(state);
    if (!found) return { says: trouble || "The maps are being fetched …", told: { waits: true } };
    const [read, rolled] = found;
    const shown = {
      layer: [`Attention, layer ${depth}`, read.subarray(prefix)],
      rollout: [`Rollout, layer${depth > 1 ? "s" : ""} ${through}`, rolled.subarray(prefix)],
      class: [`“${data.classes[chosen]}”, ${through}`,
        weighted[chosen].slice((depth - 1) * patches, depth * patches)],
    };
    panels.forEach(({ kind, name, map, asked, bright }) => {
      const [words, numbers] = shown[kind], top = Math.max(...numbers) || 1;
      paint(map, rows, columns, (patch) => color(numbers[patch], top));
      asked.put(kind === "class" ? -1 : query - prefix);
      name.textContent = words;
      bright.textContent = `brightest: ${contrast(numbers).toFixed(1)} × mean`;
    });
    const most = argmax(rolled.subarray(prefix));
    const who = query < prefix ? "the class token" : `the patch in ${inWords(query - prefix, columns)}`;
    const reached = state.without && depth === layers && most !== first &&
      `without head ${head + 1} of layer ${layer + 1} the brightest patch is another one.`;
    return { says: `The rollout of ${who} is brightest in ${inWords(most, columns)}. `, reached,
      told: { row: [...rolled], waits: false } };
  }

  figure.stage(draw,
    div("vb-controls",
      figure.slider("depth", "Layer",
        { min: 1, max: layers, tell: (depth) => `${depth} of ${layers}` }),
      figure.toggle("without", `leave out layer ${layer + 1}, head ${head + 1}`),
      data.classes.length > 1 ? figure.select("class", "class", data.classes.map((name, i) => [i, name]),
        { part: (i) => ({ class: Number(i) }) }) : "",
      figure.reset),
    node("div", { class: "vb-trio vb-rolled", style: "--panels: 4" },
      div("", label("Click the patch that asks"),
        image(data.height, data.width, still, cells.element),
        div("vb-prefix", "or the ", figure.toggle("prefix", "class token",
          { on: () => state.query === 0, part: () => ({ query: 0 }) }))),
      ...panels.map(({ element }) => element)));
}
