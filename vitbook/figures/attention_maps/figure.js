import { node, set } from "../parts/page.js";
import { halftone, heat, paint } from "../parts/paint.js";
import { argmax, bytes, place, weightOf } from "../parts/numbers.js";
import { canvas, div, frame, grid, image, label, labelled, legend, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";

/**
 * Attention as it came from Python: `row` gives one query's weights over all keys.
 * @param {{scales: number[], codes: string}} model
 * @param {number[]} shape layers, images, heads, queries, keys
 */
export function reader({ scales, codes }, [, images, heads, queries, keys]) {
  const stored = bytes(codes);
  return (layer, image, head, query) => {
    const from = (((layer * images + image) * heads + head) * queries + query) * keys;
    return Array.from(stored.subarray(from, from + keys), (b) => weightOf(b, scales[layer]));
  };
}

/** Mean attention distance of a row in pixels; weight on other tokens counts as distance 0. */
export function meanDistance(weights, query, columns, [high, wide]) {
  const [r, c] = place(query, columns);
  return weights.reduce((sum, weight, j) => {
    const [row, column] = place(j, columns);
    return sum + weight * Math.hypot(high * (row - r), wide * (column - c));
  }, 0);
}

/**
 * @param {HTMLElement} root
 * @param {{images: string[], labels: string[], height: number, width: number,
 *   ink: ?string, grid: [number, number], prefix: string[], shape: number[], ramp: string[], turned: boolean,
 *   models: {name: string, scales: number[], codes: string}[], task: string, goal: ?number,
 *   start: {image: number, query: number, layer: number, head: number}}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid;
  const [layers, , heads, , keys] = data.shape;
  const prefix = data.prefix.length;
  const patch = [data.height / rows, data.width / columns];
  const color = heat(data.ramp);
  const models = data.models.map((model) => ({ ...model, row: reader(model, data.shape) }));
  const ink = data.ink && bytes(data.ink), area = data.height * data.width;
  const across = data.turned ? layers : heads;
  const cellOf = (row, column) =>
    data.turned ? { layer: column, head: row } : { layer: row, head: column };
  const naming = ({ layer, head }) => `layer ${layer + 1}, head ${head + 1}`;
  const at = (patch) => place(patch, columns).map((i) => i + 1);
  const figure = live(root, data, data.start), { state, change } = figure;

  const chooser = data.images.length < 2 ? "" : figure.chooser("image", "image", data.labels,
    { face: (i) => set(photo(data.images[i]), { title: data.labels[i] }) });
  const patches = figure.cells("query", rows, columns, { first: prefix });
  const tokens = data.prefix.map((name, query) => figure.toggle("prefix", name,
    { on: () => state.query === query, part: () => ({ query }) }));
  const source = photo(), size = div("vb-note");

  const views = models.map((model) => {
    const map = canvas(ink ? "" : "vb-veil"), dots = ink ? canvas("vb-dots") : "";
    const still = photo(), asked = frame(rows, columns);
    const matrix = grid({
      rows: data.turned ? heads : layers, columns: across, control: "head",
      label: `${model.name}: layer and head`, name: (...cell) => naming(cellOf(...cell)),
      pick: (...cell) => change(cellOf(...cell)),
    });
    matrix.element.classList.add("vb-heads");
    matrix.cells.forEach((cell, i) => {
      cell.append(node("canvas", { style: `aspect-ratio: ${data.width} / ${data.height}` }));
      cell.title = naming(cellOf(...place(i, across)));
    });
    const element = labelled(model.name,
      image(data.height, data.width, still, map, dots, asked.element),
      div("vb-note", data.turned ? "heads ↓ layers →" : "layers ↓ heads →"), matrix.element);
    return { model, map, dots, asked, still, matrix, element };
  });
  const scale = legend(data.ramp, keys, 2);
  const where = node("p", { class: "vb-label vb-where" }), table = div("vb-table");

  function showWeights(view, top) {
    const { image, query, layer, head } = state;
    const show = (canvas, weights) =>
      paint(canvas, rows, columns, (patch) => color(weights[prefix + patch], top));
    view.matrix.cells.forEach((cell, i) => {
      const { layer, head } = cellOf(...place(i, across));
      show(cell.firstChild, view.model.row(layer, image, head, query));
    });
    view.matrix.choose(data.turned ? head * across + layer : layer * across + head);
    show(view.map, view.model.row(layer, image, head, query));
    set(view.still, { src: data.images[image],
      alt: `${data.labels[image]} under the attention of ${view.model.name}` });
    if (ink) {
      halftone(view.dots, data.height, data.width, ink.subarray(image * area, (image + 1) * area));
    }
    view.asked.put(query - prefix);
  }

  /** One line of numbers for a model: first token, distance, largest weight. */
  function measure({ model }) {
    const { image, query, layer, head } = state;
    const weights = model.row(layer, image, head, query);
    const most = argmax(weights);
    const distance = query < prefix ? null
      : meanDistance(weights.slice(prefix), query - prefix, columns, patch);
    return {
      cells: [model.name, prefix ? weights[0].toFixed(3) : "none", weights[query].toFixed(3),
        distance === null ? "no position" : `${distance.toFixed(1)} px`,
        `${weights[most].toFixed(3)} ${most < prefix ? data.prefix[most]
          : `(${at(most - prefix).join(",\u00a0")})`}`],
      distance, step: model.scales[layer] / 255,
    };
  }

  function draw({ image, query, layer, head }) {
    let top = 1e-9;
    for (const { row } of models) {
      for (let i = 0; i < layers * heads; i++) {
        const weights = row(Math.floor(i / heads), image, i % heads, query);
        for (let j = prefix; j < keys; j++) top = Math.max(top, weights[j]);
      }
    }
    for (const view of views) showWeights(view, top);
    set(source, { src: data.images[image], alt: data.labels[image] });
    scale.show(top);

    const asker = query < prefix ? `the ${data.prefix[query]}`
      : `patch (${at(query - prefix).join(", ")})`;
    where.textContent = `Layer ${layer + 1} of ${layers}, head ${head + 1} of ${heads}, ` +
      `asked from ${asker}`;
    const lines = views.map(measure);
    const titles = ["", `on ${data.prefix[0] ?? "prefix"}`, "on itself", "mean distance", "largest"];
    table.replaceChildren(...titles.map((t) => node("span", { class: "vb-note" }, t)),
      ...lines.flatMap(({ cells, step }) => cells.map((cell, i) => node("span", {
        class: i ? "" : "vb-first", title: `stored to within ${step.toFixed(4)}, small weights finer`,
      }, cell))));
    const met = data.goal !== null && lines[0].distance !== null && lines[0].distance < data.goal;
    return { says: [where, table], reached: met && `under ${data.goal} px.` };
  }

  figure.reset.classList.add("vb-right");
  const made = figure.stage(draw, chooser,
    node("div", { class: "vb-trio", style: `--panels: ${Math.min(models.length, 3) + 1}` },
      div("vb-wide", label("Click the patch that asks"),
        image(data.height, data.width, source, patches.element), size,
        div("vb-prefix", prefix ? "or ask from the" : "", ...tokens), scale.element),
      ...views.map((view) => view.element)),
    figure.reset);
  const measured = () => {
    const times = source.clientWidth / data.width;
    size.textContent = `${data.width} × ${data.height} px, ` +
      (times >= 1 ? `enlarged ${times.toFixed(1)} times` : `shown at ${(100 * times).toFixed(0)} %`);
  };
  new ResizeObserver(measured).observe(made);
}
