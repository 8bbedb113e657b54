import { node, set } from "../parts/page.js";
import { paint, rgb } from "../parts/paint.js";
import { clamp } from "../parts/numbers.js";
import { canvas, div, drag, image, label, labelled, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** How many windows along one side hold `size` pixels from `start` on. */
export function holders({ window, step, first }, count, start, size) {
  const last = Math.min(count - 1, Math.floor((start - first) / step));
  const least = Math.max(0, Math.ceil((start + size - first - window) / step));
  return Math.max(0, last - least + 1);
}

/** The first pixels of the windows along one side that see some of the square. */
export function seen({ window, step, first }, count, start, size) {
  const places = Array.from({ length: count }, (_, i) => first + step * i);
  return places.filter((place) => place < start + size && start < place + window);
}

const number = (count) => count.toLocaleString("en-US");
const share = (part) => (part === 1 ? "100 %" : part > 0.995 ? "99 %" : `${(100 * part).toFixed(0)} %`);

/**
 * @param {HTMLElement} root
 * @param {{image: string, size: [number, number], layouts: {name: string, window: number,
 *   step: number, first: number, rows: number, columns: number}[], row: number, column: number,
 *   side: number, largest: number, colors: [string, string], task: string, goal: ?number}} data
 */
export function render(root, data) {
  const [height, width] = data.size, [blue, orange] = data.colors;
  const figure = live(root, data,
    { cut: 0, row: data.row, column: data.column, side: data.side }), { state, change } = figure;
  /** A part of the state with the square kept inside the image. */
  const kept = (part) => {
    const { row, column, side } = { ...state, ...part };
    const keep = (at, length) => clamp(Math.round(at), 0, length - side);
    return { side, row: keep(row, height), column: keep(column, width) };
  };

  const choice = figure.chooser("cut", "how the image is cut", data.layouts.map(({ name }) => name),
    { face: (i) => data.layouts[i].name, kind: "vb-choice" });
  const drawing = (attributes, ...children) => node("svg:svg",
    { viewBox: `0 0 ${width} ${height}`, class: "vb-plane", ...attributes }, ...children);
  const board = (...over) => {
    const made = image(height, width, photo(data.image), ...over);
    made.classList.add("vb-board");
    return made;
  };
  const frames = node("svg:g");
  const frame = (kind) => node("svg:rect", { class: kind, fill: "none" });
  const ring = [frame("vb-under"), frame("vb-over")];
  const near = node("svg:rect", { fill: "transparent" });
  const handle = node("svg:g", {
    class: "vb-handle", tabindex: 0, role: "slider", "data-control": "square",
    "aria-label": "square; the arrow keys move it", "aria-valuemin": 0,
    "aria-valuemax": width * height - 1,
  }, near, ...ring);
  const plane = drawing({}, frames, handle), map = canvas();
  const dot = node("svg:circle", { r: 4, class: "vb-spot" }), safeShare = div("vb-note");
  drag(plane, {
    handle,
    move: (across, down) => change(kept({
      column: across * width - state.side / 2, row: down * height - state.side / 2,
    })),
    walk: (down, right, { shiftKey }) => {
      const pace = shiftKey ? 8 : 1;
      change(kept({ row: state.row + pace * down, column: state.column + pace * right }));
    },
  });

  /** Frames of all tokens that see some of the square; says how many see all, and some. */
  function showWindows(cut) {
    const { row, column, side } = state, all = [[], []];
    for (const y of seen(cut, cut.rows, row, side)) {
      for (const x of seen(cut, cut.columns, column, side)) {
        const whole = y <= row && x <= column &&
          row + side <= y + cut.window && column + side <= x + cut.window;
        all[whole ? 0 : 1].push({ x, y, width: cut.window, height: cut.window });
      }
    }
    const drawn = (places, stroke, kind) => places.flatMap((place) => [
      node("svg:rect", { ...place, fill: "none", class: "vb-halo" }),
      node("svg:rect", { ...place, fill: "none", stroke, class: kind })]);
    frames.replaceChildren(...drawn(all[1], orange, "vb-part"), ...drawn(all[0], blue, "vb-whole"));
    return all.map((each) => each.length);
  }

  /** Colour every place by whether some token has the square whole; says which share is safe. */
  function showPlaces(cut) {
    const { side } = state, shift = Math.floor(side / 2);
    const safe = [[height, cut.rows], [width, cut.columns]].map(([length, count]) =>
      Array.from({ length: length - side + 1 }, (_, at) => holders(cut, count, at, side) > 0));
    const tints = [blue, orange].map((color) => [...rgb(color), 178]);
    paint(map, height, width, (_, r, c) => {
      const [down, across] = [safe[0][r - shift], safe[1][c - shift]];
      return down === undefined || across === undefined ? [0, 0, 0, 0] : tints[down && across ? 0 : 1];
    });
    const [down, across] = safe.map((each) => each.filter(Boolean).length / each.length);
    return down * across;
  }

  function draw({ cut: index, row, column, side }) {
    const cut = data.layouts[index];
    const [whole, part] = showWindows(cut), safe = showPlaces(cut);
    for (const each of ring) set(each, { x: column, y: row, width: side, height: side });
    const reach = Math.max(side, 28); // large enough for a finger
    set(near, { x: column + (side - reach) / 2, y: row + (side - reach) / 2, width: reach, height: reach });
    set(handle, { "aria-valuenow": row * width + column,
      "aria-valuetext": `row ${row}, column ${column}, whole in ${whole} tokens` });
    set(dot, { cx: column + side / 2, cy: row + side / 2 });
    safeShare.textContent = `Blue, ${share(safe)}: whole in some token. Orange: in none.`;
    const last = index === data.layouts.length - 1;
    return {
      says: `Windows of ${cut.window} px, every ${cut.step} px: ${number(cut.rows * cut.columns)} ` +
        `tokens. This square is whole in ${number(whole)}, and ${number(part)} ` +
        `see${part === 1 ? "s" : ""} a part of it. `,
      reached: data.goal !== null && last && side === data.goal && safe === 1 &&
        `${side} px is whole everywhere. One pixel more, and some positions are cut.`,
      told: { whole, partial: part, safe },
    };
  }

  figure.stage(draw,
    label("How the image is cut"), choice,
    div("vb-pair",
      labelled("Drag the square", board(plane),
        div("vb-note", "Frames: tokens that see all of it (solid), or a part (dashed)")),
      labelled("All positions of such a square", board(map, drawing({ "aria-hidden": "true" }, dot)),
        safeShare)),
    div("vb-controls",
      figure.slider("side", "Side of the square", { min: 1, max: data.largest,
        part: (side) => kept({ side }), tell: (side) => `${side} × ${side} px` }), figure.reset));
}
