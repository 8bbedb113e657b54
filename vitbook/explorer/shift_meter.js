import { node, stage, paint, rgb, bytes, grid } from "./shared.js";

/** How much brighter the right half of each window is than its left half, row by row. */
export function edgeMap(picture, wide, { rows, columns, window, stride, from }) {
  const half = window / 2;
  return Array.from({ length: rows }, (_, r) => Int32Array.from({ length: columns }, (_, c) => {
    let sum = 0;
    for (let i = 0; i < window; i++) {
      const start = (r * stride + i) * wide + c * stride + from;
      for (let j = 0; j < window; j++) sum += (j < half ? -1 : 1) * picture[start + j];
    }
    return sum;
  }));
}

/** What of a map is not the old one, moved by whole cells: 0 is nothing, 1 is all. */
export function leftOver(moved, before, cells) {
  let apart = 0, both = 0;
  moved.forEach((row, r) => {
    for (let c = 0; c + cells < row.length; c++) {
      apart += Math.abs(row[c] - before[r][c + cells]);
      both += Math.abs(row[c]) + Math.abs(before[r][c + cells]);
    }
  });
  return apart / Math.max(both, 1);
}

/** The whole number of cells that fits better, and what it leaves. */
export function best(moved, before, shift, stride) {
  const [low, high] = [Math.floor(shift / stride), Math.ceil(shift / stride)]
    .map((cells) => ({ cells, rest: leftOver(moved, before, cells) }));
  return high.rest < low.rest ? high : low;
}

const percent = (part) => (part === 0 ? "0 %" : part < 0.01 ? "under 1 %" : `${Math.round(100 * part)} %`);

/**
 * @param {HTMLElement} root
 * @param {{size: [number, number], view: number, reach: number, window: number,
 *   strides: number[], shift: number, pixels: string, top: number, null: number,
 *   colors: [string, string], task: string}} data
 */
export function render(root, data) {
  const [high, wide] = data.size, { view, reach, window, strides } = data;
  const picture = bytes(data.pixels);
  const [below, above] = data.colors.map(rgb);
  const start = { shift: data.shift, stride: 0 };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };

  const found = strides.map((stride) => {
    const rows = Math.floor((high - window) / stride) + 1;
    const columns = Math.floor((view - window) / stride) + 1;
    const maps = Array.from({ length: reach + 1 }, (_, from) =>
      edgeMap(picture, wide, { rows, columns, window, stride, from }));
    return { rows, columns, maps, fits: maps.map((map, s) => best(map, maps[0], s, stride)) };
  });

  const panel = (name) => {
    const canvas = node("canvas", { "aria-hidden": "true" });
    const label = node("div", { class: "vb-label" }, name);
    const frame = node("div", { class: "vb-picture", style: `aspect-ratio: ${view} / ${high}` }, canvas);
    return { canvas, label, element: node("div", {}, label, frame) };
  };
  const camera = panel("What the camera sees"), map = panel("The map of upright edges");
  const rest = panel("Left over");

  const amount = node("span", { class: "vb-amount" });
  const slider = node("input", {
    type: "range", min: 0, max: reach, step: 1, "data-control": "shift",
    oninput: () => change({ shift: Number(slider.value) }),
  });
  const choice = grid({
    rows: 1, columns: strides.length, control: "stride", label: "stride",
    name: (_, i) => `stride ${strides[i]}`, pick: (_, i) => change({ stride: i }),
  });
  choice.element.classList.add("vb-strides");
  choice.cells.forEach((cell, i) => cell.append(`${strides[i]}`));
  const reset = node("button", { type: "button", "data-control": "reset",
    onclick: () => change(start) }, "Reset");

  const bars = Array.from({ length: reach + 1 }, (_, s) => {
    const bar = node("i", { style: `background-color: ${data.colors[1]}` });
    return { bar, element: node("div", {}, node("div", { class: "vb-rise" }, bar), `${s}`) };
  });
  const limit = node("span", { class: "vb-unrelated" }, `unrelated map ${percent(data.null)}`);
  const chart = node("div", { class: "vb-moves", "aria-hidden": "true" },
    ...bars.map(({ element }) => element), limit);
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  /** Orange below nought, white at it, blue above. */
  const shade = (value) => {
    const part = Math.min(Math.abs(value) / data.top, 1), end = value < 0 ? below : above;
    return end.map((c) => 255 * (1 - part) + c * part);
  };

  function update() {
    const { shift, stride } = state, step = strides[stride];
    const { rows, columns, maps, fits } = found[stride], { cells, rest: left } = fits[shift];
    const now = maps[shift], before = maps[0];
    paint(camera.canvas, high, view, (r, c) => Array(3).fill(picture[r * wide + c + shift]));
    paint(map.canvas, rows, columns, (r, c) => shade(now[r][c]));
    paint(rest.canvas, rows, columns, (r, c) =>
      (c + cells < columns ? shade(now[r][c] - before[r][c + cells]) : [150, 150, 150, 110]));
    map.label.textContent = `Its map, ${rows} × ${columns}`;
    rest.label.textContent = `Left over: ${percent(left)}`;
    slider.value = shift;
    slider.setAttribute("aria-valuetext", amount.textContent = `${shift} px to the right`);
    choice.choose(stride);
    bars.forEach(({ bar, element }, s) => {
      bar.style.height = `${Math.min(100, 100 * fits[s].rest / (1.15 * data.null))}%`;
      element.classList.toggle("vb-here", s === shift);
    });
    const exact = fits.flatMap((fit, s) => (s && fit.rest === 0 ? [s] : []));
    const move = `${cells} cell${cells === 1 ? "" : "s"}`;
    const follows = exact.length === reach ? "It follows every move."
      : exact.length ? `Of the moves here it follows ${exact.join(", ")} px.` : "It follows none.";
    const reached = shift > 0 && left === 0 && step > 1 && stride === strides.length - 1;
    readout.replaceChildren(
      shift === 0 ? "The camera has not moved. "
        : left === 0 ? `Moved by ${move}, the old map is the new one. ${follows} `
          : `The best fit moves the old map by ${move}, and ${percent(left)} is left over. ${follows} `,
      !reached ? "" : node("strong", {}, `✓ Reached: ${shift} px is a whole number of strides.`));
    Object.assign(root, { fits: fits.map((fit) => fit.rest) }); // for the console, and for tests
    root.dataset.state = `shift=${shift} stride=${step}`;
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider vb-camera" }, node("span", {}, "Move the camera"), slider, amount),
      node("div", { class: "vb-prefix" }, node("span", {}, "Stride"), choice.element), reset),
    node("div", { class: "vb-trio vb-maps", style: "--panels: 3" },
      camera.element, map.element, rest.element),
    node("div", { class: "vb-label" }, "Left over, for every move of the camera in pixels"),
    chart, readout);
  update();
}
