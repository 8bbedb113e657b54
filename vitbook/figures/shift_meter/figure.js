import { node } from "../parts/page.js";
import { between, paint, rgb, twoSided } from "../parts/paint.js";
import { bytes } from "../parts/numbers.js";
import { canvas, div, image, label } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** How much brighter the right half of each window is than its left half, row by row. */
export function edgeMap(image, wide, { rows, columns, window, stride, from }) {
  const half = window / 2;
  return Array.from({ length: rows }, (_, r) => Int32Array.from({ length: columns }, (_, c) => {
    let sum = 0;
    for (let i = 0; i < window; i++) {
      const start = (r * stride + i) * wide + c * stride + from;
      for (let j = 0; j < window; j++) sum += (j < half ? -1 : 1) * image[start + j];
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
  const photo = bytes(data.pixels);
  const [below, above] = data.colors.map(rgb), stops = [below, [255, 255, 255], above];
  const figure = live(root, data, { shift: data.shift, stride: 0 });

  const found = strides.map((stride) => {
    const rows = Math.floor((high - window) / stride) + 1;
    const columns = Math.floor((view - window) / stride) + 1;
    const maps = Array.from({ length: reach + 1 }, (_, from) =>
      edgeMap(photo, wide, { rows, columns, window, stride, from }));
    return { rows, columns, maps, fits: maps.map((map, s) => best(map, maps[0], s, stride)) };
  });

  const panel = (words) => {
    const map = canvas(), name = label(words);
    return { map, name, element: div("", name, image(high, view, map)) };
  };
  const camera = panel("What the camera sees"), edges = panel("The map of upright edges");
  const rest = panel("Left over");
  const slider = figure.slider("shift", "Move the camera",
    { max: reach, tell: (shift) => `${shift} px to the right` });
  const choice = figure.chooser("stride", "stride", strides.map((stride) => `stride ${stride}`),
    { face: (i) => `${strides[i]}`, kind: "vb-strides" });

  const bars = Array.from({ length: reach + 1 }, (_, s) => {
    const bar = node("i", { style: `background-color: ${data.colors[1]}` });
    return { bar, element: node("div", {}, div("vb-rise", bar), `${s}`) };
  });
  const limit = node("span", { class: "vb-unrelated" }, `unrelated map ${percent(data.null)}`);
  const chart = node("div", { class: "vb-moves", "aria-hidden": "true" },
    ...bars.map(({ element }) => element), limit);
  /** Orange below nought, white at it, blue above. */
  const shade = (value) => between(stops, twoSided(value, data.top));

  function draw({ shift, stride }) {
    const step = strides[stride];
    const { rows, columns, maps, fits } = found[stride], { cells, rest: left } = fits[shift];
    const now = maps[shift], before = maps[0];
    paint(camera.map, high, view, (_, r, c) => Array(3).fill(photo[r * wide + c + shift]));
    paint(edges.map, rows, columns, (_, r, c) => shade(now[r][c]));
    paint(rest.map, rows, columns, (_, r, c) =>
      (c + cells < columns ? shade(now[r][c] - before[r][c + cells]) : [150, 150, 150, 110]));
    edges.name.textContent = `Its map, ${rows} × ${columns}`;
    rest.name.textContent = `Left over: ${percent(left)}`;
    bars.forEach(({ bar, element }, s) => {
      bar.style.height = `${Math.min(100, 100 * fits[s].rest / (1.15 * data.null))}%`;
      element.classList.toggle("vb-here", s === shift);
    });
    const exact = fits.flatMap((fit, s) => (s && fit.rest === 0 ? [s] : []));
    const move = `${cells} cell${cells === 1 ? "" : "s"}`;
    const follows = exact.length === reach ? "It follows every move."
      : exact.length ? `Of the moves here it follows ${exact.join(", ")} px.` : "It follows none.";
    const reached = shift > 0 && left === 0 && step > 1 && stride === strides.length - 1 &&
      `${shift} px is a whole number of strides.`;
    const says = shift === 0 ? "The camera has not moved. "
      : left === 0 ? `Moved by ${move}, the old map is the new one. ${follows} `
        : `The best fit moves the old map by ${move}, and ${percent(left)} is left over. ${follows} `;
    return { says, reached, told: { fits: fits.map((fit) => fit.rest) },
      named: { shift, stride: step } };
  }

  figure.stage(draw,
    div("vb-controls", slider, div("vb-prefix", node("span", {}, "Stride"), choice), figure.reset),
    node("div", { class: "vb-trio vb-maps", style: "--panels: 3" },
      camera.element, edges.element, rest.element),
    label("Left over, for every move of the camera in pixels"), chart);
}
