import { set } from "./page.js";
import { clamp, inside, way } from "./numbers.js";

/**
 * Strokes of a pointer over the cells of a surface, which are numbered row by row.
 * @param {{size: () => [number, number], paints?: () => boolean, begin: (cell: number) => void,
 *   over: (cells: number[]) => void, end?: () => void, undo?: () => void}} options
 *   `size()` is how many rows and columns there are now; `begin` hears of a stroke's first cell and
 *   `over` of those on its way; `undo` of a stroke that was none, as the page scrolled.
 */
export function brush(surface, { size, paints = () => true, begin, over, end = () => {}, undo = end }) {
  let from = null;
  const under = (event) => {
    const [x, y] = inside(event, surface.getBoundingClientRect());
    return [y, x].map((part, axis) => clamp(Math.floor(part * size()[axis]), 0, size()[axis] - 1));
  };
  const number = ([row, column]) => row * size()[1] + column;
  const lift = (left) => () => {
    if (from) left();
    from = null;
  };
  set(surface, {
    onpointerdown: (event) => {
      if (event.button || !event.isPrimary || !paints()) return;
      surface.setPointerCapture(event.pointerId);
      from = under(event);
      begin(number(from));
    },
    onpointermove: (event) => {
      const to = from && event.isPrimary && under(event);
      if (!to || `${to}` === `${from}`) return;
      over(way(from, to).slice(1).map(number));
      from = to;
    },
    onpointerup: lift(end), onpointercancel: lift(undo),
  });
}
