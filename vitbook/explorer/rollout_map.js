import { node, stage, heat, paint, bytes, grid } from "./shared.js";

/**
 * Fused maps as they came from Python, layer by layer and row by row, each row brought to sum 1.
 * @param {{scales: number[], codes: string}} stored
 */
export function unpack({ scales, codes }, tokens) {
  const stored = bytes(codes);
  return scales.map((scale, layer) => Array.from({ length: tokens }, (_, query) => {
    const from = (layer * tokens + query) * tokens;
    const row = Float64Array.from(stored.subarray(from, from + tokens), (b) => scale * (b / 255) ** 2);
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
  const state = { ...data.start };
  const change = (part) => { Object.assign(state, part); update(); };
  const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 2 : 1)} %`;

  const cells = grid({
    rows, columns, control: "query", label: "patch that asks",
    name: (row, column) => `patch row ${row + 1}, column ${column + 1}`,
    pick: (row, column) => change({ query: prefix + row * columns + column }),
  });
  const ratio = `aspect-ratio: ${data.width} / ${data.height}`;
  const picture = node("div", { class: "vb-picture" },
    node("img", { src: data.image, alt: "the picture", draggable: "false", style: ratio }), cells.element);
  const classToken = node("button", {
    type: "button", "data-control": "prefix", onclick: () => change({ query: 0 }),
  }, "class token");
  const panels = [0, 1].map(() => {
    const name = node("div", { class: "vb-label" });
    const canvas = node("canvas", { "aria-hidden": "true" });
    const asked = node("div", {
      class: "vb-asked", style: `width: ${100 / columns}%; height: ${100 / rows}%`,
    });
    const frame = node("div", { class: "vb-picture", style: ratio }, canvas, asked);
    return { name, canvas, asked, element: node("div", {}, name, frame) };
  });

  const slider = (control, label, min, max, told) => {
    const amount = node("span");
    const input = node("input", {
      type: "range", min, max, step: 1, "data-control": control,
      oninput: () => change({ [control]: Number(input.value) }),
    });
    const show = () => {
      input.value = state[control];
      input.setAttribute("aria-valuetext", amount.textContent = told(state[control]));
    };
    return { show, element: node("label", { class: "vb-slider" }, node("span", {}, label), input, amount) };
  };
  const sliders = [
    slider("residual", "Residual", 0, data.steps - 1, (at) => (at / data.steps).toFixed(2)),
    slider("depth", "Layers", 1, data.layers, (depth) => `first ${depth} of ${data.layers}`),
  ];
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(data.start),
  }, "Reset");
  const low = node("span", { style: "left: 0" }, "0"), even = node("span");
  const high = node("span", { style: "left: 100%" });
  const legend = node("div", { class: "vb-legend" },
    node("i", { style: `background: linear-gradient(to right, ${data.ramp})` }), low, even, high);
  const terms = ["stays on itself", "on the patch heard of most", "differs between askers"]
    .map((name) => ({ number: node("b"), name: node("span", { class: "vb-note" }, name) }));
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function update() {
    const { query, depth } = state, residual = state.residual / data.steps;
    const through = (count) => units.map((unit) => carry(unit, maps.slice(0, count), residual));
    const rolled = through(depth), apart = difference(rolled);
    const shown = [maps[depth - 1][query], rolled[query]];
    const top = Math.max(...shown.flatMap((row) => [...row.subarray(prefix)]));
    panels.forEach(({ canvas, asked }, i) => {
      paint(canvas, rows, columns, (r, c) => color(shown[i][prefix + r * columns + c], top));
      const at = query - prefix;
      asked.hidden = at < 0;
      asked.style.left = `${100 / columns * (at % columns)}%`;
      asked.style.top = `${100 / rows * Math.floor(at / columns)}%`;
    });
    panels[0].name.textContent = `Reads in layer ${depth}`;
    panels[1].name.textContent = `Has heard of after ${depth}`;
    cells.choose(query - prefix);
    classToken.classList.toggle("vb-pressed", query === 0);
    classToken.setAttribute("aria-pressed", query === 0);
    sliders.forEach(({ show }) => show());
    even.innerHTML = `${(1 / tokens).toFixed(3)}<br>if equal`;
    even.style.left = `${100 * Math.sqrt(Math.min(1 / tokens / top, 1))}%`;
    high.textContent = top.toFixed(3);

    const patches = [...shown[1].subarray(prefix)], most = patches.indexOf(Math.max(...patches));
    [shown[1][query], patches[most], apart].forEach((share, i) => {
      terms[i].number.textContent = percent(share);
    });
    const place = (at) => `row ${Math.floor(at / columns) + 1}, column ${at % columns + 1}`;
    const who = query < prefix ? "The class token" : `The patch in ${place(query - prefix)}`;
    const before = depth > 1 ? difference(through(depth - 1)) : 1;
    const reached = residual === 0 && apart < data.alike && before >= data.alike;
    readout.replaceChildren(
      `${who} has heard most of the patch in ${place(most)}. `,
      !reached ? "" : node("strong", {}, `✓ Reached: ${depth} layers. Without a residual all ` +
        "tokens now have nearly the same map. Raise the residual and watch them part."));
    Object.assign(root, { row: [...shown[1]], apart }); // for the console, and for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-controls" }, ...sliders.map(({ element }) => element), reset),
    node("div", { class: "vb-trio vb-rolled", style: "--panels: 3" },
      node("div", { class: "vb-wide" },
        node("div", { class: "vb-label" }, "Click the patch that asks"), picture,
        node("div", { class: "vb-prefix" }, "or ask from the", classToken)),
      ...panels.map(({ element }) => element)),
    legend,
    node("div", { class: "vb-terms" }, ...terms.map(({ number, name }) =>
      node("div", {}, number, name))),
    readout);
  update();
}
