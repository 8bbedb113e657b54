import { node, set } from "../parts/page.js";
import { argmax, signed } from "../parts/numbers.js";
import { div, grid, label, labelled, photo, track } from "../parts/parts.js";
import { live } from "../parts/live.js";

const SEEN = 0.005; // a smaller change is 0.00 on the page

/** Which quarters a number from 0 to 15 takes away: a bit for each. */
export const quartersIn = (removed) => [0, 1, 2, 3].filter((quarter) => removed >> quarter & 1);

/** "cat", "cat and rocket", "cat, rocket and coffee". */
export const listed = (names) => names.length < 2 ? names.join("")
  : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** A bar from zero to a logit, on the scale from `low` to `high`: its left end and width in percent. */
export function barOf(logit, [low, high]) {
  const at = (value) => 100 * (value - low) / (high - low);
  return { left: at(Math.min(logit, 0)), width: at(Math.max(logit, 0)) - at(Math.min(logit, 0)) };
}

/** What fell most and what rose most, in words; nothing that rounds to no change. */
export function movement(classes, changes) {
  const told = [["Largest fall", -1], ["Largest rise", 1]].flatMap(([words, way]) => {
    const along = changes.map((change) => way * change), most = argmax(along);
    return along[most] < SEEN ? [] : [`${words}: ${classes[most]}, by ${along[most].toFixed(2)}. `];
  });
  return told.join("") || "No logit changed. ";
}

/**
 * @param {HTMLElement} root
 * @param {{image: string, size: [number, number], labels: string[], classes: string[],
 *   logits: number[][], scale: [number, number], mean: number[], ink: string,
 *   goal: ?[string, string], least: number, colors: [string, string], removed: number,
 *   task: string}} data
 */
export function render(root, data) {
  const { labels, classes, logits, scale } = data, [low, high] = scale, whole = logits[0];
  const figure = live(root, data, { removed: data.removed }), { state, change } = figure;

  const quarters = grid({
    rows: 2, columns: 2, control: "removed", label: "quarters of the image", choice: false,
    name: (row, column) => labels[2 * row + column],
    pick: (row, column) => change({ removed: state.removed ^ 1 << 2 * row + column }),
  });
  const under = set(photo(data.image), { alt: `Four photographs: ${listed(labels)}` });
  const shown = div("vb-image vb-collage", under, quarters.element);
  set(shown, { style: `aspect-ratio: ${data.size[1]} / ${data.size[0]}` });

  const place = (value) => `${100 * (value - low) / (high - low)}%`;
  const rows = classes.map((name, i) => {
    const bar = node("i"), number = node("span"), moved = node("span", { class: "vb-note" });
    const was = node("b", { class: "vb-was", style: `left: ${place(whole[i])}` });
    const nought = node("b", { class: "vb-nought", style: `left: ${place(0)}` });
    return { bar, number, moved,
      element: div("vb-logit", node("span", {}, name), track(bar, nought, was), number, moved) };
  });
  // An end whose number would stand on that of zero has none.
  const ends = scale.filter((end) => Math.abs(end) > 0.15 * (high - low));
  const axis = node("div", { class: "vb-ruler", "aria-hidden": "true" }, ...[0, ...ends].map((end) =>
    node("span", { style: `left: ${place(end)}` }, signed(end, 0))));

  function draw({ removed }) {
    const now = logits[removed], gone = quartersIn(removed);
    quarters.cells.forEach((cell, quarter) => {
      const away = gone.includes(quarter);
      set(cell, { "aria-pressed": `${away}`,
        "aria-label": `${labels[quarter]}: ${away ? "taken away" : "there"}` });
      cell.textContent = away ? labels[quarter] : "";
      cell.style.background = away ? `rgb(${data.mean})` : "";
      cell.style.color = away ? data.ink : "";
    });
    const changes = now.map((logit, i) => logit - whole[i]);
    rows.forEach(({ bar, number, moved }, i) => {
      const { left, width } = barOf(now[i], scale);
      Object.assign(bar.style, { left: `${left}%`, width: `${width}%`,
        background: now[i] < 0 ? data.colors[0] : "" });
      number.textContent = signed(now[i]);
      moved.textContent = !gone.length ? "" : `${changes[i] >= SEEN ? "+" : ""}${signed(changes[i])}`;
    });
    const names = listed(gone.map((quarter) => labels[quarter]));
    const says = gone.length ? `Taken away: ${names}. ${movement(classes, changes)}`
      : "All four are there. ";
    const [name, way] = data.goal ?? [], along = (way === "up" ? 1 : -1) * changes[classes.indexOf(name)];
    const reached = along >= data.least && `with ${names} taken away, the logit of ${name} is ` +
      `${along.toFixed(2)} ${way === "up" ? "higher" : "lower"} than with all four there.`;
    return { says, reached, told: { logits: now } };
  }

  figure.stage(draw, div("vb-quarters",
    labelled("Click or touch a quarter", shown),
    div("",
      div("vb-logits", label("Logits; ticks: with all four there"),
        node("span", { class: "vb-note" }, "now"), node("span", { class: "vb-note" }, "change"),
        ...rows.map(({ element }) => element), axis),
      div("vb-controls", figure.reset))));
}
