import { set } from "./page.js";

export const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));

/** The colour at a place from 0 to 1 along stops that are evenly apart. */
export function between(stops, place) {
  const at = place * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((c, i) => c + (at - low) * (stops[low + 1][i] - c));
}

/** Weights to colours along the square root, so that small ones can be told apart. */
export function heat(ramp) {
  const stops = ramp.map(rgb);
  return (weight, top) => between(stops, Math.sqrt(Math.min(weight / top, 1)));
}

/** A number from -top to top as a place from 0 to 1, zero in the middle; beyond is cut. */
export const twoSided = (number, top, curve = (part) => part) =>
  (1 + Math.sign(number) * curve(Math.min(Math.abs(number) / top, 1))) / 2;

/** Fill a canvas of columns x rows pixels; `color(cell, row, column)` gives [r, g, b] or with an alpha. */
export function paint(canvas, rows, columns, color) {
  set(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const [r, g, b, a = 255] = color(i, Math.floor(i / columns), i % columns);
    image.data.set([r, g, b, a], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/** A small grey image as dots whose area is its ink, so that the colours under it stay true. */
export function halftone(canvas, rows, columns, ink) {
  const unit = 32;
  set(canvas, { width: columns * unit, height: rows * unit });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.strokeStyle = "rgb(0 0 0 / .7)";
  context.lineWidth = 2;
  for (let i = 0; i < rows * columns; i++) {
    if (!ink[i]) continue;
    const [x, y] = [i % columns + 0.5, Math.floor(i / columns) + 0.5];
    context.beginPath();
    context.arc(x * unit, y * unit, 0.36 * unit * Math.sqrt(ink[i] / 255), 0, 7);
    context.fill();
    context.stroke();
  }
}
