import { node, set } from "../parts/page.js";
import { brush } from "../parts/brush.js";
import { clamp, inWords, place } from "../parts/numbers.js";
import { canvas, div, drag, frame, image } from "../parts/parts.js";
import { showPlanes } from "./photo_looks.js";

/**
 * The photograph with its patches: one that asks, or a brush that marks them.
 *
 * `grid()` is how many rows and columns there are now, `held()` the brush or "ask", `patch()` the one that
 * is framed. `ask(patch)` hears of a click, `mark(patches, done)` of a stroke and of its end.
 */
export function photoPad({ grid, held, patch, ask, mark }) {
  const pixels = canvas(), cut = div("vb-cut"), frames = [];
  const handle = node("button", { type: "button", class: "vb-touch", "data-control": "patch" });
  /** A holder for a frame around the same patch, over another picture of the photograph. */
  const framed = () => (frames.push(div("vb-photo-frame")), frames.at(-1));
  const surface = set(image(1, 1, pixels, cut, framed(), handle), { class: "vb-image vb-photo-pad" });
  const cellAt = (across, down) => [down, across].map((part, axis) => clamp(Math.floor(part * grid()[axis]), 0, grid()[axis] - 1));
  const number = ([row, column]) => row * grid()[1] + column;

  const walk = (down, right) => {
    const [rows, columns] = grid(), [row, column] = place(patch(), columns);
    ask(number([clamp(row + down, 0, rows - 1), clamp(column + right, 0, columns - 1)]));
  };
  drag(surface, { handle, walk, move: (...at) => held() === "ask" && ask(number(cellAt(...at))) });
  brush(surface, {
    size: grid, paints: () => held() !== "ask",
    begin: (cell) => mark([cell], false), over: (cells) => mark(cells, false), end: () => mark([], true),
  });
  // A click that has no place came from a key.
  set(handle, { onclick: (event) => event.detail || held() === "ask" || mark([patch()], true) });

  function draw(planes, size) {
    const [rows, columns] = grid(), [row, column] = place(patch(), columns), high = 100 / rows, wide = 100 / columns;
    surface.classList.toggle("vb-painting", held() !== "ask");
    cut.style.backgroundSize = `${wide}% ${high}%`;
    Object.assign(handle.style, {
      left: `${column * wide}%`, top: `${row * high}%`, width: `${wide}%`, height: `${high}%`,
    });
    handle.setAttribute("aria-label", held() === "ask"
      ? `patch that asks, ${inWords(patch(), columns)}; arrow keys move it`
      : `patch under the brush, ${inWords(patch(), columns)}; arrow keys move it, space applies the brush`);
    if (planes) showPlanes(pixels, planes, size);
    for (const holder of frames) {
      const made = frame(rows, columns);
      holder.replaceChildren(made.element);
      made.put(patch());
    }
  }
  return { element: surface, handle, framed, draw };
}
