import { brush } from "./brush.js";
import { node } from "./page.js";
import { grid } from "./parts.js";

/** The painted cells in order, when these too are painted, or wiped. */
export function repainted(painted, cells, on) {
  const rest = painted.filter((cell) => !cells.includes(cell));
  return (on ? [...rest, ...cells] : rest).sort((a, b) => a - b);
}

/**
 * Cells that a pointer paints, or wipes where it begins on a painted one; the keys walk, and space does
 * either. `painted(cell)` says whether one is, `paint(cells, on)` is called with what changes.
 */
export function cellPad({ rows, columns, control, label, name, painted, paint }, ...under) {
  const cells = grid({
    rows, columns, control, label, name, choice: false,
    // A pointer has painted already; this is for the keyboard.
    pick: (row, column, event) => event.detail ||
      paint([row * columns + column], !painted(row * columns + column)),
  });
  const element = node("div", { class: "vb-image vb-mask-pad" }, ...under, cells.element);
  let on = true;
  brush(element, {
    size: () => [rows, columns], over: (over) => paint(over, on),
    begin: (cell) => paint([cell], on = !painted(cell)),
  });
  const show = () => cells.cells.forEach((cell, i) => cell.setAttribute("aria-pressed", painted(i)));
  return { element, show };
}
