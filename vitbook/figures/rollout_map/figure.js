import { node } from "../parts/page.js";
import { heat, paint } from "../parts/paint.js";
import { argmax, bytes, inWords, weightOf } from "../parts/numbers.js";
import { canvas, div, frame, image, label, labelled, legend, photo, term } from "../parts/parts.js";
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

/** The share of a row that differs from the mean of all rows, on average. */
export function difference(rows) {
  const mean = rows[0].map((_, key) => rows.reduce((sum, row) => sum + row[key], 0) / rows.length);
  return rows.reduce((sum, row) =>
    sum + row.reduce((part, weight, key) => part + Math.abs(weight - mean[key]), 0), 0)
    / (2 * rows.length);
}

/**
 * @param {HTMLElement} root
 * @param {{image: string, height: number, width: number, grid: [number, number], prefix: number,
 *   layers: number, scales: number[], codes: string, steps: number, alike: number,
 *   ramp: string[], task: string, start: {query: number, depth: number, residual: number}}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, { prefix } = data;
  const tokens = prefix + rows * columns;
  const maps = unpack(data, tokens);
  const units = Array.from({ length: tokens }, (_, i) =>
    Float64Array.from({ length: tokens }, (_, j) => Number(i === j)));
  const color = heat(data.ramp);
  const figure = live(root, data, data.start), { state } = figure;
  const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 2 : 1)} %`;

  const cells = figure.cells("query", rows, columns, { first: prefix });
  const still = photo(data.image);
  still.alt = "the image";
  const panels = [0, 1].map(() => {
    const name = label(), map = canvas(), asked = frame(rows, columns);
    const element = node("div", {}, name, image(data.height, data.width, map, asked.element));
    return { name, map, asked, element };
  });
  const scale = legend(data.ramp, tokens, 3);
  const terms = ["stays on itself", "on the patch heard of most", "differs between askers"].map(term);

  function draw({ query, depth }) {
    const residual = state.residual / data.steps;
    const through = (count) => units.map((unit) => carry(unit, maps.slice(0, count), residual));
    const rolled = through(depth), apart = difference(rolled);
    const shown = [maps[depth - 1][query], rolled[query]];
    const top = Math.max(...shown.flatMap((row) => [...row.subarray(prefix)]));
    panels.forEach(({ name, map, asked }, i) => {
      paint(map, rows, columns, (patch) => color(shown[i][prefix + patch], top));
      asked.put(query - prefix);
      name.textContent = `${["Reads in layer", "Has heard of after"][i]} ${depth}`;
    });
    scale.show(top);

    const patches = [...shown[1].subarray(prefix)], most = argmax(patches);
    [shown[1][query], patches[most], apart].forEach((share, i) => terms[i].say(percent(share)));
    const who = query < prefix ? "The class token" : `The patch in ${inWords(query - prefix, columns)}`;
    const before = depth > 1 ? difference(through(depth - 1)) : 1;
    const reached = residual === 0 && apart < data.alike && before >= data.alike &&
      `${depth} layers. Without a residual all tokens now have nearly the same map. ` +
      "Raise the residual and watch them part.";
    return { says: `${who} has heard most of the patch in ${inWords(most, columns)}. `, reached,
      told: { row: [...shown[1]], apart } };
  }

  figure.stage(draw,
    div("vb-controls",
      figure.slider("residual", "Residual",
        { max: data.steps - 1, tell: (at) => (at / data.steps).toFixed(2) }),
      figure.slider("depth", "Layers",
        { min: 1, max: data.layers, tell: (depth) => `first ${depth} of ${data.layers}` }),
      figure.reset),
    node("div", { class: "vb-trio vb-rolled", style: "--panels: 3" },
      div("vb-wide", label("Click the patch that asks"),
        image(data.height, data.width, still, cells.element),
        div("vb-prefix", "or ask from the", figure.toggle("prefix", "class token",
          { on: () => state.query === 0, part: () => ({ query: 0 }) }))),
      ...panels.map(({ element }) => element)),
    scale.element,
    div("vb-terms", ...terms.map(({ element }) => element)));
}
