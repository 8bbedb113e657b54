import { node, set, stage, rgb, paint, step, grid, hold } from "./shared.js";

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
  const start = { cut: 0, row: data.row, column: data.column, side: data.side };
  const state = { ...start };
  const change = (part) => {
    Object.assign(state, part);
    const keep = (at, length) => Math.max(0, Math.min(length - state.side, Math.round(at)));
    Object.assign(state, { row: keep(state.row, height), column: keep(state.column, width) });
    update();
  };

  const choice = grid({
    rows: 1, columns: data.layouts.length, control: "cut", label: "how the picture is cut",
    name: (_, i) => data.layouts[i].name, pick: (_, cut) => change({ cut }),
  });
  choice.element.classList.add("vb-choice");
  choice.cells.forEach((cell, i) => cell.append(data.layouts[i].name));

  const photo = () => node("img", { src: data.image, alt: "", draggable: "false" });
  const box = `0 0 ${width} ${height}`, ratio = `aspect-ratio: ${width} / ${height}`;
  const frames = node("svg:g");
  const frame = (kind) => node("svg:rect", { class: kind, fill: "none" });
  const ring = [frame("vb-under"), frame("vb-over")];
  const near = node("svg:rect", { fill: "transparent" });
  const handle = node("svg:g", {
    class: "vb-handle", tabindex: 0, role: "slider", "data-control": "square",
    "aria-label": "square; the arrow keys move it", "aria-valuemin": 0,
    "aria-valuemax": width * height - 1,
  }, near, ...ring);
  const plane = node("svg:svg", { viewBox: box, class: "vb-plane" }, frames, handle);
  const board = node("div", { class: "vb-picture vb-board", style: ratio }, photo(), plane);
  const map = node("canvas", { "aria-hidden": "true" });
  const dot = node("svg:circle", { r: 4, class: "vb-spot" });
  const places = node("div", { class: "vb-picture vb-board", style: ratio }, photo(), map,
    node("svg:svg", { viewBox: box, class: "vb-plane", "aria-hidden": "true" }, dot));
  const safeShare = node("div", { class: "vb-note" });

  const amount = node("span", { class: "vb-amount" });
  const slider = node("input", {
    type: "range", min: 1, max: data.largest, step: 1, "data-control": "side",
    oninput: () => change({ side: Number(slider.value) }),
  });
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(start),
  }, "Reset");
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  const move = (event) => {
    const { left, top, width: wide, height: tall } = plane.getBoundingClientRect();
    change({ column: (event.clientX - left) / wide * width - state.side / 2,
      row: (event.clientY - top) / tall * height - state.side / 2 });
  };
  let dragging = false;
  set(plane, {
    onpointerdown: (event) => {
      // A finger beside the square scrolls the page; a tap there still brings it.
      if (event.pointerType === "touch" && !handle.contains(event.target)) return;
      dragging = true;
      plane.setPointerCapture(event.pointerId);
      move(event);
    },
    onpointermove: (event) => dragging && move(event),
    onpointerup: () => (dragging = false),
    onpointercancel: () => (dragging = false),
    onclick: move,
  });
  hold(handle);
  handle.addEventListener("keydown", (event) => {
    const [down, right] = step(event) ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const pace = event.shiftKey ? 8 : 1;
    change({ row: state.row + pace * down, column: state.column + pace * right });
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
    paint(map, height, width, (r, c) => {
      const [down, across] = [safe[0][r - shift], safe[1][c - shift]];
      return down === undefined || across === undefined ? [0, 0, 0, 0] : tints[down && across ? 0 : 1];
    });
    const [down, across] = safe.map((each) => each.filter(Boolean).length / each.length);
    return down * across;
  }

  function update() {
    const { cut: index, row, column, side } = state, cut = data.layouts[index];
    const [whole, part] = showWindows(cut), safe = showPlaces(cut);
    choice.choose(index);
    for (const each of ring) set(each, { x: column, y: row, width: side, height: side });
    const reach = Math.max(side, 28); // large enough for a finger
    set(near, { x: column + (side - reach) / 2, y: row + (side - reach) / 2, width: reach, height: reach });
    set(handle, { "aria-valuenow": row * width + column,
      "aria-valuetext": `row ${row}, column ${column}, whole in ${whole} tokens` });
    set(dot, { cx: column + side / 2, cy: row + side / 2 });
    slider.value = side;
    slider.setAttribute("aria-valuetext", amount.textContent = `${side} × ${side} px`);
    const tokens = cut.rows * cut.columns;
    safeShare.textContent = `Blue, ${share(safe)}: whole in some token. Orange: in none.`;
    const reached = data.goal !== null && index === data.layouts.length - 1 && side === data.goal &&
      safe === 1;
    readout.replaceChildren(
      `Windows of ${cut.window} px, every ${cut.step} px: ${number(tokens)} tokens. This square is ` +
      `whole in ${number(whole)}, and ${number(part)} see${part === 1 ? "s" : ""} a part of it. `,
      !reached ? "" : node("strong", {}, `✓ Reached: ${side} px is whole everywhere. ` +
        "One pixel more, and some places are cut."));
    Object.assign(root, { whole, partial: part, safe }); // for the console, and for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-label" }, "How the picture is cut"), choice.element,
    node("div", { class: "vb-pair" },
      node("div", {}, node("div", { class: "vb-label" }, "Drag the square"), board,
        node("div", { class: "vb-note" }, "Frames: tokens that see all of it (solid), or a part (dashed)")),
      node("div", {}, node("div", { class: "vb-label" }, "All places for such a square"), places,
        safeShare)),
    node("div", { class: "vb-controls" }, node("label", { class: "vb-slider" },
      node("span", {}, "Side of the square"), slider, amount), reset),
    readout);
  update();
}
