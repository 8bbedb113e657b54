import { node } from "./page.js";
import { inWords } from "./numbers.js";
import { grid } from "./parts.js";

const option = ([value, words]) => Array.isArray(words)
  ? node("optgroup", { label: value }, ...words.map(option)) : node("option", { value }, words);

/**
 * A figure's state, the controls that change it, and what is said of it.
 *
 * A control is named after the part of the state that it holds. Where it holds something else, `at`
 * says where the control stands now, and `part` which part of the state follows from its place.
 * @param {HTMLElement} root
 * @param {{task: string}} data
 * @param {object} start  the state at the start, which Reset brings back
 */
export function live(root, data, start) {
  const state = { ...start }, shown = [];
  const readout = node("div", { class: "vb-readout", "aria-live": "polite" });
  let draw;

  function change(part) {
    Object.assign(state, part);
    shown.forEach((show) => show());
    const { says, reached, told, named = state } = draw(state);
    const words = [says].flat(), done = reached ? `✓ Reached: ${reached}` : "";
    // A screen reader would read the same words again.
    if (words.some((each) => typeof each !== "string") || readout.textContent !== words.join("") + done) {
      readout.replaceChildren(...words, done && node("strong", {}, done));
    }
    Object.assign(root, told); // for the console, and for tests
    root.dataset.state = Object.entries(named).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = Boolean(reached);
    // A caption that speaks of the start leaves with it; see `_caption` in figure.py.
    root.toggleAttribute("data-moved", Object.entries(start).some(([key, value]) => state[key] !== value));
  }
  const button = (control, words, onclick) =>
    node("button", { type: "button", "data-control": control, onclick }, words);

  return {
    state, change, button,
    reset: button("reset", "Reset", () => change(start)),

    /** A button that stays pressed while `on` holds. */
    toggle(control, words, { on = () => state[control], part = () => ({ [control]: !on() }) } = {}) {
      const made = button(control, words, () => change(part()));
      shown.push(() => {
        made.setAttribute("aria-pressed", on());
        made.classList.toggle("vb-pressed", on());
      });
      return made;
    },

    /** A slider with its name, and its place in words by `tell`. */
    slider(control, words, { min = 0, max, step = 1, tell, at = () => state[control],
      part = (value) => ({ [control]: value }), ...more }) {
      const amount = node("span", { class: "vb-amount" });
      const input = node("input", {
        type: "range", min, max, step, "data-control": control, ...more,
        oninput: () => change(part(Number(input.value))),
      });
      shown.push(() => {
        input.value = at();
        input.setAttribute("aria-valuetext", amount.textContent = tell(at()));
      });
      return node("label", { class: "vb-slider" }, node("span", {}, words), input, amount);
    },

    /** A list of [value, words], or of [name of a group, such a list]. */
    select(control, label, options, { at = () => state[control],
      part = (value) => ({ [control]: value }) } = {}) {
      const made = node("select", {
        "data-control": control, "aria-label": label, onchange: () => change(part(made.value)),
      }, ...options.map(option));
      shown.push(() => (made.value = at()));
      return made;
    },

    /** A cell to choose in an image; the first one is number `first` of the state. */
    cells(control, rows, columns, { what = "patch", label = `${what} that asks`, first = 0 } = {}) {
      const made = grid({
        rows, columns, control, label,
        name: (row, column) => `${what} in ${inWords(row * columns + column, columns)}`,
        pick: (row, column) => change({ [control]: first + row * columns + column }),
      });
      shown.push(() => made.choose(state[control] - first));
      return made;
    },

    /** One of a few, in a row: `face(i)` is what its button shows. */
    chooser(control, label, names, { face, kind = "vb-chooser", at = () => state[control],
      part = (i) => ({ [control]: i }) }) {
      const made = grid({
        rows: 1, columns: names.length, control, label, name: (_, i) => names[i],
        pick: (_, i) => change(part(i)),
      });
      made.element.classList.add(kind);
      made.cells.forEach((cell, i) => cell.append(face(i)));
      shown.push(() => made.choose(at()));
      return made.element;
    },

    /**
     * Put the live figure after the still one. `draw(state)` draws all of it and returns what it
     * says: `says` in words or elements, `reached` if the task is, `told` for the console, `named`
     * the state as the page tells it.
     */
    stage(drawing, ...children) {
      draw = drawing;
      const task = data.task ? node("p", { class: "vb-task" }, data.task) : "";
      const made = node("div", { class: "vb-live" }, task, ...children, readout);
      root.querySelector(".vb-still").after(made);
      change({});
      return made;
    },
  };
}
