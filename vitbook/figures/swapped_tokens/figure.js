import { node, set } from "../parts/page.js";
import { signed } from "../parts/numbers.js";
import { div, label, labelled, note, photo, track } from "../parts/parts.js";
import { cellPad } from "../parts/cell_pad.js";
import { live } from "../parts/live.js";

const SEEN = 0.005; // a smaller change is 0.00 on the page
const TOKEN = 4; // the class token's bit; the quarters have 0 to 3

/** Which parts a number takes from the other photograph: a bit for each. */
export const partsIn = (swapped) => [0, 1, 2, 3, TOKEN].filter((part) => swapped >> part & 1);

/** "cat", "cat and rocket", "cat, rocket and coffee". */
export const listed = (names) => names.length < 2 ? names.join("")
  : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** A bar from zero to a logit, on the scale from `low` to `high`: its left end and width in percent. */
export function barOf(logit, [low, high]) {
  const at = (value) => 100 * (value - low) / (high - low);
  return { left: at(Math.min(logit, 0)), width: at(Math.max(logit, 0)) - at(Math.min(logit, 0)) };
}

/** Where tokens are swapped, behind so many of all blocks. */
export const placed = (block, blocks) =>
  block === 0 ? "in front of block 1" : block === blocks ? `behind block ${blocks}, the last` : `behind block ${block}`;

/**
 * @param {HTMLElement} root
 * @param {{pairs: {names: [string, string], images: [string, string], logits: number[][][], answers: number[][],
 *   scale: [number, number]}[], parts: string[], classes: string[], shown: string[], size: [number, number],
 *   colors: [string, string], goal: ?[number, number], start: {pair: number, block: number, swapped: number},
 *   task: string}} data  `logits` and `answers` by block, then by which parts are swapped
 */
export function render(root, data) {
  const { pairs, parts, classes, shown } = data, blocks = pairs[0].logits.length - 1, all = 2 ** parts.length - 1;
  const figure = live(root, data, data.start), { state, change } = figure;
  const put = (part, on) => on ? state.swapped | 1 << part : state.swapped & ~(1 << part);

  const under = photo(pairs[0].images[0]), beside = photo(pairs[0].images[1]);
  const quarters = cellPad({
    rows: 2, columns: 2, control: "swapped", label: "quarters; space swaps one's tokens",
    name: (row, column) => parts[2 * row + column],
    painted: (quarter) => Boolean(state.swapped >> quarter & 1),
    paint: (cells, on) => cells.forEach((quarter) => change({ swapped: put(quarter, on) })),
  }, under);
  const ratio = `aspect-ratio: ${data.size[1]} / ${data.size[0]}`;
  const token = figure.toggle("token", "", {
    on: () => Boolean(state.swapped >> TOKEN & 1),
    part: () => ({ swapped: state.swapped ^ 1 << TOKEN }),
  });
  const chooser = pairs.length < 2 ? "" : figure.select("pair", "photographs",
    pairs.map(({ names }, i) => [i, `${names[1]} into ${names[0]}`]),
    { part: (i) => ({ pair: Number(i), swapped: 0 }) });
  const block = figure.slider("block", "Swap", { max: blocks, tell: (at) => placed(at, blocks) });
  const every = figure.button("all", "Swap all", () => change({ swapped: all }));
  [token, every].forEach((each) => each.classList.add("vb-token"));

  const rows = shown.map((name) => {
    const bar = node("i"), number = node("span"), moved = node("span", { class: "vb-note" });
    const was = node("b", { class: "vb-was" }), then = node("b", { class: "vb-was vb-then" });
    const nought = node("b", { class: "vb-nought" });
    return { bar, number, moved, was, then, nought,
      element: div("vb-logit", node("span", {}, name), track(bar, nought, was, then), number, moved) };
  });
  const names = [label(), label()], ticks = note();

  function draw({ pair: number, block, swapped }) {
    const pair = pairs[number], [one, other] = pair.names, found = pair.logits[block];
    const whole = found[0], now = found[swapped], answer = classes[pair.answers[block][swapped]];
    set(under, { src: pair.images[0], alt: one });
    set(beside, { src: pair.images[1], alt: other });
    set(quarters.element, { style: `${ratio}; --vb-other: url(${pair.images[1]})` });
    quarters.show();
    const gone = partsIn(swapped), words = listed(gone.map((part) => parts[part]));
    names[0].textContent = `${one}: click a quarter`;
    names[1].textContent = other;
    token.textContent = `Class token: ${gone.includes(TOKEN) ? other : one}`;
    ticks.textContent = `Solid tick: ${one} alone. Dotted tick: ${other} alone. ` +
      "The pictures stand for tokens: pixels are not swapped.";
    const at = (value) => `${barOf(value, pair.scale).left + (value > 0 ? barOf(value, pair.scale).width : 0)}%`;
    rows.forEach(({ bar, number: told, moved, was, then, nought, element }, i) => {
      const { left, width } = barOf(now[i], pair.scale), step = now[i] - whole[i];
      Object.assign(bar.style, { left: `${left}%`, width: `${width}%`,
        background: now[i] < 0 ? data.colors[0] : "" });
      was.style.left = at(whole[i]);
      then.style.left = at(found[all][i]);
      nought.style.left = at(0);
      told.textContent = signed(now[i]);
      moved.textContent = !gone.length ? "" : `${step >= SEEN ? "+" : ""}${signed(step)}`;
      element.classList.toggle("vb-most", shown[i] === answer);
    });
    const says = `${gone.length ? `Tokens of ${other}, ${placed(block, blocks)}: ${words}. ` : "Nothing is swapped. "}` +
      `The answer is ${answer}. `;
    const [asked, behind] = data.goal ?? [], theirs = classes[pair.answers[block][all]];
    const there = number === asked && block === behind && answer === theirs;
    const reached = there && gone.length === 1 && `${words} alone, ${placed(block, blocks)}, gives ${answer}.`;
    const more = there && !reached ? "Is one of these parts enough? Take the others out." : "";
    return { says: says + more, reached, told: { logits: now, answer } };
  }

  figure.stage(draw, div("vb-controls", chooser, block, figure.reset),
    div("vb-swap",
      div("", names[0], quarters.element, token, every),
      div("", names[1], set(div("vb-image", beside), { style: ratio })),
      div("vb-logits", label("Logits"),
        node("span", { class: "vb-note" }, "now"), node("span", { class: "vb-note" }, "change"),
        ...rows.map(({ element }) => element), ticks)));
}
