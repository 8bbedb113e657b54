import { node, stage, paint, grid, bytes, rgb } from "./shared.js";

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 0.31 as it is, tiny numbers by their power of ten. */
function amount(change) {
  if (change === 0) return "0";
  if (change >= 0.005) return change.toFixed(2);
  const [digit, power] = change.toExponential(0).split("e");
  return `${digit} × 10${[...power].map((sign) => RAISED[sign]).join("")}`;
}

/**
 * @param {HTMLElement} root
 * @param {{pixels: string, size: [number, number], channels: number, grid: [number, number],
 *   classes: string[], orders: [string, number[]][], numbers: number, width: number,
 *   models: [string, {chances: number[], change: number, token_changes: number[],
 *   levels: string}[]][], start: [string, string], follow: number, colors: string[],
 *   task: string}} data
 */
export function render(root, data) {
  const [height, width] = data.size, [rows, columns] = data.grid;
  const [high, wide] = [height / rows, width / columns], count = rows * columns;
  const raw = bytes(data.pixels), [low, middle, top] = data.colors.map(rgb);
  const start = { model: data.start[0], order: data.start[1], patch: data.follow };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };
  const ratio = `aspect-ratio: ${width} / ${height}`;

  /** The picture with patch order[place] at each place. */
  const draw = (canvas, order) => paint(canvas, height, width, (y, x) => {
    const patch = order[Math.floor(y / high) * columns + Math.floor(x / wide)];
    const from = (Math.floor(patch / columns) * high + y % high) * width + patch % columns * wide + x % wide;
    return [0, 1, 2].map((channel) => raw[(data.channels === 1 ? 0 : channel) * height * width + from]);
  });
  /** Tokens as columns of colours: blue below zero, white at it, orange above. */
  const drawTokens = (canvas, levels) => {
    const level = bytes(levels);
    paint(canvas, data.numbers, count, (number, place) => {
      const value = level[place * data.numbers + number] / 127.5 - 1, end = value < 0 ? low : top;
      return middle.map((c, i) => c + Math.abs(value) * (end[i] - c));
    });
  };
  const frame = () => node("div", { class: "vb-asked", "aria-hidden": "true" });
  const putFrame = (element, row, column, down, across) => Object.assign(element.style, {
    left: `${100 * column / across}%`, top: `${100 * row / down}%`,
    width: `${100 / across}%`, height: `${100 / down}%`,
  });

  const pictures = [0, 1].map(() => node("canvas", { "aria-hidden": "true" }));
  const strips = [0, 1].map(() => node("canvas", { "aria-hidden": "true" }));
  const strip = strips.map(frame), moved = frame();
  const cells = grid({
    rows, columns, control: "patch", label: "patch to follow",
    name: (row, column) => `patch in row ${row + 1}, column ${column + 1}`,
    pick: (row, column) => change({ patch: row * columns + column }),
  });
  const chooser = (control, label, names, key) => {
    const select = node("select", {
      "data-control": control, "aria-label": label, onchange: () => change({ [key]: select.value }),
    }, ...names.map((name) => node("option", { value: name }, name)));
    return select;
  };
  const positions = chooser("positions", "positions", data.models.map(([name]) => name), "model");
  const order = chooser("order", "order of the patches", data.orders.map(([name]) => name), "order");
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(start),
  }, "Reset");
  const bars = data.classes.map((name) => {
    const bar = node("i"), was = node("b", { class: "vb-was" }), chance = node("span");
    const element = node("div", { class: "vb-class" }, node("span", {}, name),
      node("span", { class: "vb-track" }, bar, was), chance);
    return { element, bar, was, chance };
  });
  const label = node("div", { class: "vb-label" });
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function update() {
    const answers = new Map(data.models).get(state.model);
    const at = data.orders.findIndex(([name]) => name === state.order);
    const [before, after] = [answers[0], answers[at]], places = data.orders[at][1];
    const place = places.indexOf(state.patch);
    [positions.value, order.value, label.textContent] = [state.model, state.order, state.order];
    draw(pictures[0], data.orders[0][1]);
    draw(pictures[1], places);
    cells.choose(state.patch);
    putFrame(moved, Math.floor(place / columns), place % columns, rows, columns);
    [before, after].forEach((answer, i) => {
      drawTokens(strips[i], answer.levels);
      putFrame(strip[i], 0, i ? place : state.patch, 1, count);
    });
    const best = (answer) => answer.chances.indexOf(Math.max(...answer.chances));
    bars.forEach(({ element, bar, was, chance }, i) => {
      element.classList.toggle("vb-most", i === best(after));
      bar.style.width = `${100 * after.chances[i]}%`;
      was.style.left = `calc(${before.chances[i]} * (100% - 3px))`;
      chance.textContent = after.chances[i].toFixed(2);
    });
    const rest = places.every((patch, i) => patch === i);
    const reached = after.change > 1e-6 && best(after) === best(before);
    readout.replaceChildren(
      `Largest change of the logits: ${amount(after.change)}. The framed patch went from place ` +
      `${state.patch + 1} to place ${place + 1}; its token changed by ${amount(after.token_changes[state.patch])}. `,
      rest ? "Nothing has moved yet. " : "",
      !reached ? "" : node("strong", {},
        `✓ Reached: the logits changed, and it still reads ${data.classes[best(after)]}.`));
    Object.assign(root, { place, change: after.change, token: after.token_changes[state.patch] });
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  const tokens = (words, i) => node("div", {}, node("div", { class: "vb-label" }, words),
    node("div", { class: "vb-picture vb-columns" }, strips[i], strip[i]));
  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-reader" },
      node("div", {}, node("div", { class: "vb-label" }, "As it was: click a patch"),
        node("div", { class: "vb-picture", style: ratio }, pictures[0], cells.element)),
      node("div", {}, label, node("div", { class: "vb-picture", style: ratio }, pictures[1], moved)),
      node("div", { class: "vb-wide" }, node("div", { class: "vb-label" }, "Its answer; ticks: as it was"),
        ...bars.map((bar) => bar.element))),
    node("div", { class: "vb-controls" }, positions, order, reset),
    node("div", { class: "vb-pair vb-footprint" },
      tokens("Tokens of places 1 to " + count + ", as it was", 0), tokens("The same places, after", 1)),
    node("p", { class: "vb-note" }, `One column a place: the first ${data.numbers} of a patch ` +
      `token's ${data.width} numbers after the last layer; blue below zero, orange above.`),
    readout);
  update();
}
