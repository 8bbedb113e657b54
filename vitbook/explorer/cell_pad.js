import { node, set } from "./page.js";
import { clamp, inside, way } from "./numbers.js";
import { grid } from "./parts.js";

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
  let from = null, on = true;
  const cellUnder = (event) => {
    const [x, y] = inside(event, element.getBoundingClientRect());
    return [clamp(Math.floor(y * rows), 0, rows - 1), clamp(Math.floor(x * columns), 0, columns - 1)];
  };
  const numbers = (places) => places.map(([row, column]) => row * columns + column);
  const lift = () => (from = null);
  set(element, {
    onpointerdown: (event) => {
      if (event.button) return;
      element.setPointerCapture(event.pointerId);
      from = cellUnder(event);
      on = !painted(numbers([from])[0]);
      paint(numbers([from]), on);
    },
    onpointermove: (event) => {
      if (!from) return;
      const to = cellUnder(event);
      if (`${to}` === `${from}`) return;
      const over = numbers(way(from, to).slice(1));
      from = to;
      paint(over, on);
    },
    onpointerup: lift, onpointercancel: lift,
  });
  const show = () => cells.cells.forEach((cell, i) => cell.setAttribute("aria-pressed", painted(i)));
  return { element, show };
}
