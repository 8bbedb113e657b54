import { node } from "../parts/page.js";
import { heat, paint } from "../parts/paint.js";
import { argmax, bytes, inWords, weightOf } from "../parts/numbers.js";
import { canvas, div, frame, image, label, note, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";

/**
 * Fused maps as they came from Python, layer by layer and row by row, each row brought to sum 1.
 * @param {{scales: number[], codes: string}} stored
 */
export function unpack({ scales, codes }, tokens) {
  const stored = bytes(codes);
  return scales.map((scale, layer) => Array.from({ length: tokens }, (_, query) => {
    const from = (layer * tokens + query) * tokens;
    const row = Float64Array.from(stored.subarray(from, from + tokens), (b) => weightOf(b, scale));
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
 *   layers: number, scales: number[], codes: string, classes: string[], weighted: string[],
 *   residual: number, leftOut: [number, number], ramp: string[], task: string,
 *   start: {query: number, depth: number, without: boolean, class: number}}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, { prefix, layers } = data, patches = rows * columns;
  const [layer, head] = data.leftOut, tokens = prefix + patches;
  const maps = unpack(data, tokens), others = maps.pop();
  const weighted = data.weighted.map((text) => Array.from(bytes(text), (b) => weightOf(b, 1)));
  const color = heat(data.ramp);
  const figure = live(root, data, data.start), { state } = figure;

  const counted = ({ depth, without }) =>
    maps.slice(0, depth).map((map, i) => (without && i === layer ? others : map));
  const rollout = ({ query, ...which }) => {
    const asks = Float64Array.from({ length: tokens }, (_, token) => Number(token === query));
    return carry(asks, counted(which), data.residual);
  };
  const first = argmax(rollout(data.start).subarray(prefix));

  const cells = figure.cells("query", rows, columns, { first: prefix });
  const still = photo(data.image);
  still.alt = "the image";
  const panels = ["layer", "rollout", "class"].map((kind) => {
    const name = label(), map = canvas(), asked = frame(rows, columns), bright = note();
    const element = node("div", {}, name, image(data.height, data.width, map, asked.element), bright);
    return { kind, name, map, asked, bright, element };
  });

  function draw({ query, depth, class: chosen }) {
    const through = depth > 1 ? `1–${depth}` : "1";
    const rolled = rollout(state);
    const shown = {
      layer: [`Attention, layer ${depth}`, counted(state)[depth - 1][query].subarray(prefix)],
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
      told: { row: [...rolled] } };
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
