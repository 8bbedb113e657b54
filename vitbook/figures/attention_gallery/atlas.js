import { set } from "../parts/page.js";
import { between, rgb } from "../parts/paint.js";

const SHADES = 256;

/**
 * Many small maps on one canvas, each from 0 to its own largest weight.
 * @param {{down: number, across: number, rows: number, columns: number, ramp: string[]}} layout
 *   how many maps, and how many patches each has.
 */
export function atlas(canvas, { down, across, rows, columns, ramp }) {
  const times = Math.max(1, Math.round(16 / Math.min(rows, columns)));
  const high = rows * times + 1, wide = columns * times + 1;
  const width = across * wide - 1, height = down * high - 1;
  set(canvas, { width, height });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const out = new Uint32Array(image.data.buffer), stops = ramp.map(rgb);
  const table = Uint32Array.from({ length: SHADES }, (_, i) => {
    const color = Uint8Array.from([...between(stops, i / (SHADES - 1)).map(Math.round), 255]);
    return new Uint32Array(color.buffer)[0];
  });
  const shade = new Uint32Array(SHADES);

  /** Draw a map in cell `cell`; without one the cell is empty. */
  function put(cell, codes) {
    const top = codes ? codes.reduce((most, code) => Math.max(most, code), 1) : 1;
    for (let code = 0; code <= top; code++) {
      shade[code] = table[Math.round((SHADES - 1) * Math.sqrt(code / top))];
    }
    const from = Math.floor(cell / across) * high * width + (cell % across) * wide;
    for (let y = 0; y < high - 1; y++) {
      const row = Math.floor(y / times) * columns, line = from + y * width;
      for (let x = 0; x < wide - 1; x++) {
        out[line + x] = codes ? shade[codes[row + Math.floor(x / times)]] : 0;
      }
    }
  }
  return { put, width, height, show: () => context.putImageData(image, 0, 0) };
}

/** The veil over a photograph: colours with an alpha, from no weight to all of it. */
export const veil = (stops) => (part) => between(stops, Math.sqrt(Math.min(Math.max(part, 0), 1)));

/** Heads in the order in which they are shown: a cell's layer and head, counted as one number. */
export function order(far, layers, heads, nearest) {
  const cells = Array.from({ length: layers * heads }, (_, cell) =>
    (cell % layers) * heads + Math.floor(cell / layers));
  return nearest ? cells.sort((a, b) => far[a] - far[b] || a - b) : cells;
}
