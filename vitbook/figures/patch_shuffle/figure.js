import { between, paint, rgb, twoSided } from "../parts/paint.js";
import { argmax, bytes, place } from "../parts/numbers.js";
import { canvas, classBars, div, frame, image, label, labelled, note } from "../parts/parts.js";
import { live } from "../parts/live.js";

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 0.31 as it is, tiny numbers by their power of ten. */
export function amount(change) {
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
  const raw = bytes(data.pixels), stops = data.colors.map(rgb);
  const [model, order] = data.start;
  const figure = live(root, data, { model, order, patch: data.follow });

  /** The image with patch order[at] at each place. */
  const show = (canvas, order) => paint(canvas, height, width, (_, y, x) => {
    const [row, column] = place(order[Math.floor(y / high) * columns + Math.floor(x / wide)], columns);
    const from = (row * high + y % high) * width + column * wide + x % wide;
    return [0, 1, 2].map((channel) => raw[(data.channels === 1 ? 0 : channel) * height * width + from]);
  });
  /** Tokens as columns of colours: blue below zero, white at it, orange above. */
  const showTokens = (canvas, levels) => {
    const level = bytes(levels);
    paint(canvas, data.numbers, count, (_, number, at) =>
      between(stops, twoSided(level[at * data.numbers + number] / 127.5 - 1, 1)));
  };

  const images = [canvas(), canvas()], strips = [canvas(), canvas()];
  const framed = strips.map(() => frame(1, count)), moved = frame(rows, columns);
  const cells = figure.cells("patch", rows, columns, { label: "patch to follow" });
  const names = (pairs) => pairs.map(([name]) => [name, name]);
  const positions = figure.select("positions", "positions", names(data.models),
    { at: () => figure.state.model, part: (model) => ({ model }) });
  const orders = figure.select("order", "order of the patches", names(data.orders));
  const bars = classBars(data.classes), name = label();

  function draw({ model, order, patch }) {
    const answers = new Map(data.models).get(model);
    const which = data.orders.findIndex(([name]) => name === order);
    const [before, after] = [answers[0], answers[which]], places = data.orders[which][1];
    const now = places.indexOf(patch);
    name.textContent = order;
    show(images[0], data.orders[0][1]);
    show(images[1], places);
    moved.put(now);
    [before, after].forEach((answer, i) => {
      showTokens(strips[i], answer.levels);
      framed[i].put(i ? now : patch);
    });
    bars.show(after.chances, before.chances);
    const rest = places.every((patch, i) => patch === i), best = argmax(after.chances);
    const reached = after.change > 1e-6 && best === argmax(before.chances) &&
      `the logits changed, and it still reads ${data.classes[best]}.`;
    const says = `Largest change of the logits: ${amount(after.change)}. The framed patch went from ` +
      `position ${patch + 1} to position ${now + 1}; its token changed by ` +
      `${amount(after.token_changes[patch])}. ${rest ? "Nothing has moved yet. " : ""}`;
    return { says, reached,
      told: { place: now, change: after.change, token: after.token_changes[patch] } };
  }

  const tokens = (words, i) => labelled(words, div("vb-image vb-columns", strips[i], framed[i].element));
  figure.stage(draw,
    div("vb-reader",
      labelled("As it was: click a patch", image(height, width, images[0], cells.element)),
      div("", name, image(height, width, images[1], moved.element)),
      div("vb-wide", label("Its answer; ticks: as it was"), ...bars.elements)),
    div("vb-controls", positions, orders, figure.reset),
    div("vb-pair vb-footprint",
      tokens(`Tokens of positions 1 to ${count}, as it was`, 0), tokens("The same positions, after", 1)),
    note(`One column a position: the first ${data.numbers} of a patch token's ${data.width} numbers ` +
      "after the last layer; blue below zero, orange above."));
}
