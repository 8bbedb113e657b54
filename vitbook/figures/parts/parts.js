import { node, set } from "./page.js";
import { argmax, inside, place } from "./numbers.js";

/** An image at its proportions, and what lies over it. */
export const image = (height, width, ...over) =>
  node("div", { class: "vb-image", style: `aspect-ratio: ${width} / ${height}` }, ...over);
export const canvas = (kind) => node("canvas", { "aria-hidden": "true", class: kind || null });
export const photo = (src) => node("img", { src, alt: "", draggable: "false" });
export const label = (...words) => node("div", { class: "vb-label" }, ...words);
export const labelled = (words, ...children) => node("div", {}, label(words), ...children);
export const note = (...words) => node("p", { class: "vb-note" }, ...words);
export const div = (kind, ...children) => node("div", { class: kind || null }, ...children);
/** The track of a bar whose width says a share. */
export const track = (...bars) => node("span", { class: "vb-track" }, ...bars);
/** A word inside a drawing. */
export const word = (attributes, told) =>
  node("svg:text", { class: "vb-tick vb-axis-word", ...attributes }, told);

/** A frame around one cell of an image; `put(-1)` takes it away. */
export function frame(rows, columns, kind = "vb-asked") {
  const size = `width: ${100 / columns}%; height: ${100 / rows}%`;
  const element = node("i", { class: kind, style: size });
  const put = (cell) => {
    const [row, column] = place(cell, columns);
    element.hidden = cell < 0;
    Object.assign(element.style, { left: `${100 * column / columns}%`, top: `${100 * row / rows}%` });
  };
  return { element, put };
}

/** A large number and its name under it. */
export function term(name) {
  const number = node("b"), words = node("span", { class: "vb-note" });
  const say = (told, as = name) => ([number.textContent, words.textContent] = [told, as]);
  return { say, element: node("div", {}, number, words) };
}

/** The colours' scale from 0 to the brightest, with the place of an equal share among `count`. */
export function legend(ramp, count, digits) {
  const even = node("span"), high = node("span", { style: "left: 100%" });
  even.append((1 / count).toFixed(3), node("br"), "if equal");
  const show = (top) => {
    even.style.left = `${100 * Math.sqrt(Math.min(1 / count / top, 1))}%`;
    high.textContent = top.toFixed(digits);
  };
  const bar = node("i", { style: `background: linear-gradient(to right, ${ramp})` });
  return { show, element: div("vb-legend", bar, node("span", { style: "left: 0" }, "0"), even, high) };
}

/** One bar a class, the most probable in bold; `before` puts a tick where each chance was. */
export function classBars(classes) {
  const bars = classes.map((name) => {
    const bar = node("i"), was = node("b", { class: "vb-was" }), chance = node("span");
    const element = div("vb-class", node("span", {}, name), track(bar, was), chance);
    return { element, bar, was, chance };
  });
  const show = (chances, before) => bars.forEach(({ element, bar, was, chance }, i) => {
    element.classList.toggle("vb-most", i === argmax(chances) && chances[i] > Math.min(...chances));
    bar.style.width = `${100 * chances[i]}%`;
    was.hidden = !before;
    if (before) was.style.left = `calc(${before[i]} * (100% - 3px))`;
    chance.textContent = chances[i].toFixed(2);
  });
  return { show, elements: bars.map(({ element }) => element) };
}

const STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
};
/** Call `walk(down, right, event)` for an arrow key. */
export const arrows = (walk) => (event) => {
  if (!STEPS[event.key]) return;
  event.preventDefault();
  walk(...STEPS[event.key], event);
};

const GRASP = 48; // px: so large at least is a handle for a finger, however small it is drawn
/** Does a finger take hold of a handle? What else can be pressed near it stays pressable. */
function holds(handle, { clientX, clientY, target }) {
  if (handle.contains(target)) return true;
  if (target.closest("button, a")) return false;
  const { left, top, width, height } = handle.getBoundingClientRect();
  return Math.abs(clientX - left - width / 2) <= Math.max(width, GRASP) / 2 &&
    Math.abs(clientY - top - height / 2) <= Math.max(height, GRASP) / 2;
}

/**
 * A handle that a pointer drags over a surface, and that the arrow keys walk.
 * @param {{handle: Element, move: (across: number, down: number) => void,
 *   walk: (down: number, right: number, event: Event) => void}} options
 *   `move` gets the place in the surface, 0 to 1 from its left and from its top.
 */
export function drag(surface, { handle, move, walk }) {
  let dragging = false;
  const to = (event) => move(...inside(event, surface.getBoundingClientRect()));
  const stop = () => (dragging = false);
  set(surface, {
    onpointerdown: (event) => {
      // A finger beside the handle scrolls the page; a tap there still brings it.
      if (event.pointerType === "touch" && !holds(handle, event)) return;
      if (event.button) return; // the menu of the right one keeps its end
      dragging = true;
      surface.setPointerCapture(event.pointerId);
      to(event);
    },
    // Without a button it is no drag: where the surface moves in the page, its end is not heard.
    onpointermove: (event) => (dragging &&= event.buttons > 0) && to(event),
    onpointerup: stop, onpointercancel: stop,
    // A click that a screen reader makes has no place, and would be one in the corner of the page.
    onclick: (event) => event.detail && to(event),
  });
  // A finger on the handle moves it and not the page: inside a drawing `touch-action` does not hold.
  surface.addEventListener("touchstart", (event) => {
    const [{ clientX, clientY }] = event.touches;
    if (holds(handle, { clientX, clientY, target: event.target })) event.preventDefault();
  }, { passive: false });
  set(handle, { onkeydown: arrows(walk) });
}

/**
 * A grid of buttons with one tab stop, walked by the arrow keys.
 * @param {{rows: number, columns: number, control: string, label: string,
 *   name: (row: number, column: number) => string,
 *   pick: (row: number, column: number, event?: Event) => void, choice?: boolean}} options
 *   `choice`: the buttons exclude each other, and walking onto one picks it.
 */
export function grid({ rows, columns, control, label, name, pick, choice = true }) {
  const cells = [];
  const stop = (index) => cells.forEach((cell, i) => (cell.tabIndex = i === index ? 0 : -1));
  const walkFrom = (row, column) => arrows((down, right) => {
    // In a single row up and down walk too, as in any group of radio buttons.
    const next = rows === 1 ? [0, column + right + down] : [row + down, column + right];
    if (next[0] < 0 || next[0] >= rows || next[1] < 0 || next[1] >= columns) return;
    stop(next[0] * columns + next[1]);
    cells[next[0] * columns + next[1]].focus();
    if (choice) pick(...next);
  });
  for (let i = 0; i < rows * columns; i++) {
    const at = place(i, columns);
    cells.push(node("button", {
      type: "button", role: choice && "radio", "aria-label": name(...at), tabindex: i ? -1 : 0,
      onclick: (event) => pick(...at, event), onkeydown: walkFrom(...at),
    }));
  }
  const element = node("div", {
    class: "vb-grid", role: choice ? "radiogroup" : "group", "aria-label": label,
    "data-control": control, style: `--columns: ${columns}; --rows: ${rows}`,
  }, ...cells);
  /** Mark a cell as the chosen one; -1 for none. */
  const choose = (index) => {
    cells.forEach((cell, i) => cell.setAttribute("aria-checked", i === index));
    if (index >= 0) stop(index);
  };
  return { element, cells, choose };
}
