import { place } from "../parts/numbers.js";
import { cellOf, PREFIX_STEP, tagOf } from "./scenes.js";

const DIM = 0.66; // of black over a photograph whose looked-at patches are lit
const GHOST = 0.45; // of the photograph that the patches have left

/**
 * The pixels of a scene.
 * @param {CanvasRenderingContext2D} context
 * @param {object} plan  of `flowPlan`
 * @param {object} scene  of `flowScene`, or between two
 * @param {{photo: Image, veil: ?Image, strips: HTMLCanvasElement[], found: [number, number][],
 *   patch: number}} what  `strips`: the tokens of each layer, a pixel each; `found`: tokens that the
 *   followed patch looks at most, and weights, the largest first
 */
export function paintFlow(context, plan, scene, { photo, veil, strips, found, patch }) {
  const { places, lines, parts, colors } = scene, { rows, columns, prefix } = plan;
  const sheet = context.canvas, count = rows * columns, ratio = sheet.width / plan.width;
  const cells = Array.from({ length: count }, (_, i) => i);
  // On whole pixels of the screen no seam shows between neighbours.
  const snap = (value) => Math.round(value * ratio);
  const box = (x, y, wide, high) => [
    snap(x), snap(y), Math.max(1, snap(x + wide) - snap(x)), Math.max(1, snap(y + high) - snap(y)),
  ];
  const whole = (at) => box(at.x, at.y, at.cell * columns, at.cell * rows);
  const fill = (color, to) => {
    context.fillStyle = color;
    context.fillRect(...to);
  };
  const colorOf = (token) => `rgb(${colors.subarray(3 * token, 3 * token + 3).join(" ")})`;
  const [wide, high] = [photo.naturalWidth / columns, photo.naturalHeight / rows];
  const cut = (cell, to) => {
    const [row, column] = place(cell, columns);
    context.drawImage(photo, column * wide, row * high, wide, high, ...to);
  };
  const faded = (alpha, act) => {
    if (alpha < 0.005 || !wide) return; // not there, or the photograph is not decoded yet
    context.globalAlpha = Math.min(alpha, 1);
    act();
    context.globalAlpha = 1;
  };

  context.clearRect(0, 0, sheet.width, sheet.height);
  faded(parts.ghost * (GHOST + (1 - GHOST) * parts.veil), () =>
    context.drawImage(photo, ...whole(plan.left)));
  faded(parts.veil * DIM, () => fill("#000", whole(plan.left)));
  for (const [token, weight] of found) {
    if (token < prefix) continue;
    faded(parts.veil * (0.3 + 0.7 * weight / found[0][1]), () =>
      cut(token - prefix, box(...cellOf(plan, plan.left, token - prefix))));
  }
  faded(parts.right, () => cells.forEach((i) =>
    fill(colorOf(prefix + i), box(...cellOf(plan, plan.right, i)))));

  context.imageSmoothingEnabled = false;
  faded(parts.zoom, () => cut(patch, whole(plan.right)));
  strips.forEach((strip, i) => faded(lines[3 * i + 2], () => {
    const [y, tall] = lines.subarray(3 * i, 3 * i + 2);
    context.drawImage(strip, prefix, 0, count, 1, ...box(plan.first, y, count * plan.unit, tall));
    for (let k = 0; k < prefix; k++) {
      context.drawImage(strip, k, 0, 1, 1, ...box(PREFIX_STEP * k, y, PREFIX_STEP - 1, tall));
    }
  }));
  for (let k = 0; k < prefix; k++) {
    faded(parts.prefix, () => fill(colorOf(k), box(PREFIX_STEP * k, parts.y, PREFIX_STEP - 1, parts.high)));
  }
  context.imageSmoothingEnabled = true;

  const fly = (i) => {
    const to = box(...places.subarray(4 * i, 4 * i + 4));
    if (parts.pixels < 1) fill(colorOf(prefix + i), to);
    faded(parts.pixels, () => cut(i, to));
  };
  cells.forEach(fly);
  fly(patch); // above those that it passes
  faded(parts.answer, () => veil?.naturalWidth && context.drawImage(veil, ...whole(plan.answer)));
  faded(parts.flat, () => cut(patch, box(...tagOf(plan, patch))));
}
