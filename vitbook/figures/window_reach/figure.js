import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { inWords, place } from "../parts/numbers.js";
import { canvas, div, image, label, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { veilAt } from "../parts/veil.js";
import { blocksOf, pairs, seen } from "./reach.js";

const DIM = 0.25; // what is left of the light where the token does not see
const flags = (way) => ({ shift: way % 2 === 1, merge: way > 1 });
const said = (number) => number.toLocaleString("en");
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** The borders of a block's windows, in patches, as the path of an SVG. */
export function borders(side, { patches, window, shift }) {
  const step = window * patches, lines = [];
  for (let at = shift * patches || step; at < side; at += step) lines.push(at);
  return lines.map((at) => `M${at} 0V${side}M0 ${at}H${side}`).join("");
}

/**
 * @param {HTMLElement} root
 * @param {{photo: string, size: [number, number], side: number, window: number, depths: number[],
 *   token: number, blocks: number, way: number, ways: string[], task: string}} data
 */
export function render(root, data) {
  const { side, window, depths, ways } = data, [height, width] = data.size;
  const figure = live(root, data, { token: data.token, blocks: data.blocks, way: data.way });
  const plans = ways.map((_, way) => blocksOf(side, window, depths, flags(way)));
  const most = plans[0].length, whole = side * side;
  const full = (blocks) => blocks.reduce((sum, { patches }) => sum + (side / patches) ** 4, 0);

  const veil = canvas(), heading = label();
  const lines = ["vb-halo", "vb-ink"].map((kind) => node("svg:path", { class: kind }));
  const own = ["vb-halo", "vb-own"].map((kind) => node("svg:rect", { class: kind }));
  const over = node("svg:svg", { class: "vb-plane", viewBox: `0 0 ${side} ${side}`,
    preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines, ...own);
  const cells = figure.cells("token", side, side, { label: "patch whose token is asked" });
  const counts = ways.map(() => node("b"));

  function reach(token, blocks) {
    const ends = place(token, side).map((at) => seen(at, side, blocks));
    return { ends, count: ends.reduce((sum, [low, high]) => sum * (high - low + 1), 1) };
  }

  function draw({ token, blocks, way }) {
    const passed = plans.map((plan) => plan.slice(0, blocks)), last = passed[way].at(-1);
    const found = passed.map((some) => reach(token, some));
    const { ends: [[top, bottom], [left, right]], count } = found[way];
    paint(veil, side, side, (_, row, column) =>
      veilAt(row >= top && row <= bottom && column >= left && column <= right ? 1 : DIM));
    lines.forEach((line) => set(line, { d: last ? borders(side, last) : "" }));
    const wide = last?.patches ?? 1, [y, x] = place(token, side).map((at) => Math.floor(at / wide) * wide);
    own.forEach((rect) => set(rect, { x, y, width: wide, height: wide }));
    counts.forEach((each, i) => (each.textContent = said(found[i].count)));
    heading.textContent = `After ${plural(blocks, "block")}: ${said(count)} of ${whole} patches`;

    const tokens = last && side / last.patches;
    const says = !last ? `Before the first block a token sees its own patch. `
      : `Block ${blocks}: ${tokens} × ${tokens} tokens, ` + (last.window === tokens ? "one window. "
        : `windows of ${last.window} × ${last.window}, ${last.shift ? "shifted" : "standing"}. `) +
        `Up to here ${said(pairs(side, passed[way]))} pairs; without windows ${said(full(passed[way]))}. `;
    const early = blocks > 0 && blocks < most - 1 && count === whole;
    return {
      says: `The patch in ${inWords(token, side)} sees ${said(count)} of ${whole} patches. ${says}`,
      reached: early && `all ${whole} patches after ${plural(blocks, "block")}.`,
      told: { seen: found.map(({ ends }) => ends), pairs: passed.map((some) => pairs(side, some)) },
    };
  }

  const choice = figure.chooser("way", "windows and maps", ways, { kind: "vb-choice",
    face: (i) => node("span", { class: "vb-way" }, ways[i], counts[i]) });
  figure.stage(draw,
    div("vb-controls vb-depth",
      figure.slider("blocks", "Blocks", { max: most, tell: String }),
      figure.reset),
    choice,
    div("vb-reach", heading, image(height, width, photo(data.photo), veil, over, cells.element)));
}
