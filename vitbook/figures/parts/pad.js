import { node, set } from "./page.js";
import { paint } from "./paint.js";
import { inside, inWords } from "./numbers.js";
import { canvas, grid } from "./parts.js";
import { countPoints, crossed, ERASER, erased, MOST_POINTS, PEN, pointOf, SIDE, simpler } from "./ink.js";

/**
 * A pad that a pointer or the keys draw on. `ink()` is what lies on it, {strokes, pixels}: strokes, or
 * the pixels of a small image; `erasing()` whether to take ink away; `changed(ink, full)` is called
 * with what then lies on it, and with whether a stroke had to end.
 */
export function drawingPad([rows, columns], { ink, erasing, changed }) {
  const sheet = canvas(), sharp = 384;
  let last = null, keys = false;

  /** Ink along the way from the last point, or none there any more. */
  function go(to) {
    const { strokes, pixels } = ink(), from = last ?? to;
    if (erasing()) {
      const steps = Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) * 2 / ERASER);
      const way = Array.from({ length: steps + 1 }, (_, i) =>
        to.map((end, a) => from[a] + (end - from[a]) * (steps ? i / steps : 1)));
      const wiped = pixels && [...pixels];
      for (const [x, y] of wiped ? way : []) {
        wiped[Math.floor(y / SIDE * rows) * columns + Math.floor(x / SIDE * columns)] = 0;
      }
      changed({ pixels: wiped, strokes: way.reduce((left, at) => erased(left, at), strokes) });
    } else if (!last) {
      // A digit of one's own does not land on the one that is shown.
      changed({ pixels: null, strokes: [...strokes, [to]] });
    } else {
      const before = strokes.slice(0, -1), stroke = strokes.at(-1);
      if (to.every((end, a) => end === last[a])) return;
      const longer = [...before, [...stroke, to]];
      const shorter = countPoints(longer) > MOST_POINTS ? [...before, simpler(longer.at(-1))] : longer;
      if (countPoints(shorter) > MOST_POINTS) return lift(true);
      changed({ pixels: null, strokes: shorter });
    }
    last = to;
  }
  function lift(full = false) {
    if (!last) return;
    last = null;
    keys = false;
    const { strokes, pixels } = ink();
    changed({ pixels, strokes: strokes.map(simpler) }, full);
  }
  const start = (to) => erasing() || countPoints(ink().strokes) < MOST_POINTS ? go(to) : changed(ink(), true);

  const middleOf = (row, column) => pointOf([(column + .5) / columns, (row + .5) / rows]);
  const cells = grid({
    rows, columns, control: "pad", choice: false,
    label: "drawing pad; space puts the pen or eraser down, the arrow keys move it, space lifts it",
    name: (row, column) => inWords(row * columns + column, columns),
    pick: (row, column, event) => {
      if (event.detail) return; // a pointer has drawn already; this is for the keyboard
      if (keys) return lift();
      keys = true;
      start(middleOf(row, column));
    },
  });
  const element = node("div", { class: "vb-image vb-pad", style: `--rows: ${rows}; --columns: ${columns}` },
    sheet, cells.element);
  const at = (event) => pointOf(inside(event, element.getBoundingClientRect()));
  set(element, {
    onpointerdown: (event) => {
      if (event.button) return;
      element.setPointerCapture(event.pointerId);
      lift();
      start(at(event));
    },
    onpointermove: (event) => last && !keys && go(at(event)),
    onpointerup: () => lift(), onpointercancel: () => lift(),
    onfocusin: (event) => {
      const i = cells.cells.indexOf(event.target);
      if (keys && i >= 0) go(middleOf(Math.floor(i / columns), i % columns));
    },
    onfocusout: (event) => keys && !element.contains(event.relatedTarget) && lift(),
  });

  function show() {
    const { strokes, pixels } = ink();
    sheet.classList.toggle("vb-smooth", !pixels);
    if (pixels) paint(sheet, rows, columns, (pixel) => Array(3).fill(pixels[pixel]));
    else {
      set(sheet, { width: sharp, height: sharp });
      const context = sheet.getContext("2d");
      Object.assign(context, { strokeStyle: "#fff", lineCap: "round", lineJoin: "round", lineWidth: PEN });
      context.scale(sharp / SIDE, sharp / SIDE);
      for (const stroke of strokes) {
        context.beginPath();
        context.moveTo(...stroke[0]);
        for (const point of stroke) context.lineTo(...point);
        context.stroke();
      }
    }
    const inked = pixels ? pixels.map((pixel) => pixel > 127) : crossed(strokes, rows, columns);
    cells.cells.forEach((cell, i) => cell.setAttribute("aria-pressed", inked[i]));
  }
  return { element, show, penDown: () => keys };
}
