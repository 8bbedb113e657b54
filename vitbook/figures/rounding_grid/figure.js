import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { argmax, bytes, clamp } from "../parts/numbers.js";
import { canvas, div, drag, note } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { address, linkTo, restored, stated } from "../parts/address.js";

const TINY = 2 ** -126; // the smallest normal number of float32
const GAP = 3, WIDE_GAP = 5; // px between lines that can be seen, between marks that may be wide
const LINE = 1, BAND = 2, VALUE = 3, ROUNDED = 6; // what a pixel shows, by its colour's number

/** The nearest whole number, a half to the even one: so torch and numpy round. */
export function nearest(number) {
  const up = Math.round(number);
  return up - number === 0.5 && up % 2 ? up - 1 : up;
}

/** Of an even number the lower of the two in the middle. */
export const median = (numbers) => [...numbers].sort((a, b) => a - b)[(numbers.length - 1) >> 1];

/** The channels with the first one louder or quieter. */
export const scaled = ([first, ...others], percent) =>
  [first.map((value) => value * Math.fround(percent / 100)), ...others];

const largest = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 0);

/** Channels of float32, rounded with a step for each or one for all; errors are in percent. */
export function roundChannels(channels, bits, each) {
  const most = 2 ** (bits - 1) - 1;
  const tops = channels.map(largest);
  return channels.map((values, i) => {
    const step = Math.max(Math.fround((each ? tops[i] : Math.max(...tops)) / most), TINY);
    const codes = Array.from(values, (v) => clamp(nearest(Math.fround(v / step)), -most, most));
    let change = 0, size = 0;
    values.forEach((value, j) => {
      change += (Math.fround(codes[j] * step) - value) ** 2;
      size += value ** 2;
    });
    return { values, codes, step, used: new Set(codes).size,
      error: size ? 100 * Math.sqrt(change / size) : 0 };
  });
}

/** What the pixels of a channel show: a row of its values, then one of what they become. */
export function strip({ values, codes, step }, bits, reach, width, ratio) {
  const most = 2 ** (bits - 1) - 1, apart = width * step / reach / 2 / ratio;
  const at = (number) => clamp(Math.floor(width * (1 + number / reach) / 2), 0, width - 1);
  const above = new Uint8Array(width);
  if (apart >= GAP) for (let code = -most; code <= most; code++) above[at(code * step)] = LINE;
  else above.fill(BAND, at(-most * step), at(most * step) + 1);
  const below = above.slice();
  for (const value of values) {
    const seen = above[at(value)];
    above[at(value)] = seen < VALUE ? VALUE : Math.min(seen + 1, VALUE + 2);
  }
  const one = Math.round(ratio), [from, to] = apart >= WIDE_GAP ? [-one, 2 * one] : [0, one];
  for (const code of new Set(codes)) {
    for (let side = from; side < to; side++) {
      below[clamp(at(code * step) + side, 0, width - 1)] = ROUNDED;
    }
  }
  return [...above, ...below];
}

/** The number 1, 2 or 5, times a power of ten, that stands well inside the line. */
export function tick(reach) {
  const most = 0.8 * reach, ten = 10 ** Math.floor(Math.log10(most));
  return [5, 2, 1].map((first) => first * ten).find((number) => number <= most);
}

export const percentOf = (error) => `${error.toFixed(error >= 10 ? 0 : 1)} %`;

/**
 * @param {HTMLElement} root
 * @param {{values: string, names: string[], bits: number, reach: number, margin: number,
 *   legend: string, goal: ?number, scales: [number, number, number], colors: number[][],
 *   task: string}} data
 */
export function render(root, data) {
  const { names, goal, scales: [quietest, loudest, pace] } = data;
  const all = new Float32Array(bytes(data.values).buffer), tokens = all.length / names.length;
  const channels = names.map((_, i) => all.subarray(i * tokens, (i + 1) * tokens));
  const extreme = channels[0].reduce((far, v) => (Math.abs(v) > Math.abs(far) ? v : far), 0);
  const figure = live(root, data, { bits: data.bits, each: 0, scale: 100 });
  const { state, change } = figure;
  const scale = (percent) =>
    change({ scale: clamp(pace * Math.round(percent / pace), quietest, loudest) });

  const sharing = ["all channels", "each channel"];
  const bits = figure.slider("bits", "Bits",
    { min: 2, max: 8, tell: (bits) => `${bits}: ${2 ** bits - 1} codes` });
  const choice = figure.chooser("each", "one step for", sharing,
    { face: (i) => sharing[i], kind: "vb-choice" });

  const knob = node("span", { class: "vb-knob", tabindex: 0, role: "slider",
    "data-control": "scale", "aria-label": `${names[0]}: quieter or louder`,
    "aria-valuemin": quietest, "aria-valuemax": loudest });
  const rows = names.map((name, i) => {
    const made = { picture: canvas(), used: node("span"), error: node("span") };
    const line = div("vb-along", made.picture, i ? "" : knob);
    if (!i) {
      drag(line, {
        handle: knob, move: (across) => scale(100 * data.margin * Math.abs(2 * across - 1)),
        walk: (down, right) => scale(state.scale + pace * (right - down)),
      });
    }
    return { ...made, element: div("vb-channel", node("b", { title: name }, name), line,
      made.used, made.error) };
  });
  const axis = node("div", { class: "vb-ruler", "aria-hidden": "true" });
  const told = note();
  const link = node("a", { class: "vb-link" }, "Link to this view");
  let shown; // what the strips show, to draw them again at another width

  function drawStrips() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(rows[0].picture.clientWidth * ratio);
    if (!width) return;
    rows.forEach(({ picture }, i) => {
      const kinds = strip(shown.found[i], shown.bits, shown.reach, width, ratio);
      paint(picture, 2, width, (pixel) => data.colors[kinds[pixel]]);
    });
  }

  function draw({ bits, each, scale }) {
    const found = roundChannels(scaled(channels, scale), bits, each);
    const times = `${(scale / 100).toFixed(2)} ×`;
    // The line grows with a channel that would leave it.
    const reach = Math.max(data.reach, 1.05 * Math.abs(extreme) * scale / 100), far = tick(reach);
    shown = { found, bits, reach };
    drawStrips();
    const place = (number) => `${50 * (1 + number / reach)}%`;
    rows.forEach(({ used, error }, i) => {
      used.textContent = found[i].used;
      error.textContent = percentOf(found[i].error);
    });
    told.textContent = `Drag the knob to scale ${names[0]}, now ${times}`;
    knob.style.left = place(extreme * scale / 100);
    set(knob, { "aria-valuenow": scale, "aria-valuetext": times });
    const marked = (number) => node("span", { style: `left: ${place(number)}` },
      `${Number(number.toPrecision(1))}`.replace("-", "−"));
    axis.replaceChildren(...[-far, 0, far].map(marked));
    const used = median(found.map((each) => each.used));
    const error = median(found.map((each) => each.error));
    const loud = argmax(found.map(({ values }) => largest(values)));
    const moved = scale === 100 ? "" : `, ${names[0]} at ${times}`;
    const named = { bits, each, scale };
    linkTo(link, address(root, "rounding", named));
    return {
      says: `${bits} bits, one step for ${each ? "each channel" : "all"}${moved}: the median ` +
        `channel uses ${used} of ${2 ** bits - 1} codes, error ${percentOf(error)}. ` +
        (each ? "" : `The step comes from ${names[loud]}. `),
      reached: goal !== null && bits === data.bits && !each && used >= goal &&
        `with ${names[0]} at ${times} the median channel uses ${used} codes.`,
      told: { used: found.map((each) => each.used), errors: found.map((each) => each.error) },
      named,
    };
  }

  const table = div("vb-rounding",
    div("vb-channel", node("span"), node("span", {}, data.legend),
      node("span", {}, "codes"), node("span", {}, "error")),
    ...rows.map(({ element }) => element), axis);
  figure.stage(draw,
    div("vb-controls", bits, div("vb-prefix", node("span", {}, "One step for"), choice),
      figure.reset, link),
    told, table);
  restored(root, "rounding", (text) =>
    stated(text, { bits: [2, 8], each: [0, 1], scale: [quietest, loudest] }), change);
  drawStrips();
  new ResizeObserver(drawStrips).observe(table);
}
