import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { bytes, clamp, inWords, place } from "../parts/numbers.js";
import { arrows, canvas, div, image, photo } from "../parts/parts.js";
import { brush } from "../parts/brush.js";
import { live } from "../parts/live.js";
import { veilAt } from "../parts/veil.js";
import { enlarged, headScores, outline, overlap, unpacked } from "./head.js";

const KINDS = [1, -1, 0]; // of the brushes: object, background, wipe
const BRUSHES = ["Object", "Background", "Wipe"], CALLED = { 1: "object", "-1": "background", 0: "not painted" };
const SPOTS = { 1: "h.01", "-1": "m-.22-.22l.44.44m0-.44l-.44.44" }; // a dot, a cross
const DIM = 0.3; // what is left of the light where the head sees none of the object

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const counted = (count, one, more) => `${count} ${count === 1 ? one : more}`;

/** A drawing over a photograph with a path that shows on every ground. */
function over([rows, columns], ...kinds) {
  const paths = kinds.map((kind) => ["vb-halo", "vb-ink"].map((layer) =>
    node("svg:path", { class: `${layer} ${kind}` })));
  const element = node("svg:svg", { class: "vb-plane", viewBox: `0 0 ${columns} ${rows}`,
    preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths.flat());
  return { element, put: (...drawn) => paths.forEach((pair, i) => pair.forEach((path) => set(path, { d: drawn[i] }))) };
}

/** Dots on patches of the object and crosses on those of the background, as two paths. */
const spots = (marks, columns) => [1, -1].map((kind) => marks.map((mark, cell) => {
  const [row, column] = place(cell, columns);
  return mark === kind ? `M${column + .5} ${row + .5}${SPOTS[kind]}` : "";
}).join(""));

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], size: [number, number], grid: [number, number], side: number,
 *   masks: string[], sources: [string, string][], penalty: number, goal: ?[number, number], task: string,
 *   painted: [number[], number[]][]}} data  `painted` at the start: of each photograph the patches
 *   of the object, and of the background
 */
export function render(root, data) {
  const { grid, side, photos } = data, [rows, columns] = grid, patches = rows * columns;
  const levels = data.sources.map(([, text]) => new Int8Array(bytes(text).buffer));
  const truths = data.masks.map((text) => unpacked(bytes(text), side * side));
  const blank = photos.map(() => Array(patches).fill(0));
  const start = data.painted.map(([object, background]) => blank[0].map((_, cell) =>
    object.includes(cell) ? 1 : background.includes(cell) ? -1 : 0));
  const figure = live(root, data, { source: 0, brush: 0, truth: false, painted: start });
  const { state, change } = figure;

  const put = (i, cells, mark) => change({ painted: state.painted.map((marks, j) =>
    j !== i ? marks : marks.map((was, cell) => cells.includes(cell) ? mark : was)) });
  /** What a stroke leaves that begins here: a second one over the same wipes. */
  const inkAt = (i, cell) => state.painted[i][cell] === KINDS[state.brush] ? 0 : KINDS[state.brush];

  /** A photograph to paint, by a pointer or with the keys of its handle. */
  function surface([name, source], i) {
    const veil = canvas("vb-smooth"), edges = over([side, side], "vb-edge vb-head", "vb-edge");
    const dots = over(grid, "vb-object", "vb-background");
    let held = Math.max(start[i].findIndex(Boolean), 0), ink = 0, before;
    const handle = node("button", {
      type: "button", class: "vb-touch", "data-control": "patch",
      onclick: (event) => event.detail || put(i, [held], inkAt(i, held)),
      onkeydown: arrows((down, right) => {
        const [row, column] = place(held, columns);
        held = clamp(row + down, 0, rows - 1) * columns + clamp(column + right, 0, columns - 1);
        show();
      }),
    });
    function show() {
      const [row, column] = place(held, columns);
      Object.assign(handle.style, { left: `${100 * column / columns}%`, top: `${100 * row / rows}%`,
        width: `${100 / columns}%`, height: `${100 / rows}%` });
      handle.setAttribute("aria-label", `${name}, ${inWords(held, columns)}: ` +
        `${CALLED[state.painted[i][held]]}; arrow keys move, space paints`);
    }
    const made = image(...data.size, photo(source), veil, edges.element, dots.element, handle);
    made.classList.add("vb-canvass");
    brush(made, {
      size: () => grid,
      begin: (cell) => {
        [before, ink, held] = [state.painted, inkAt(i, cell), cell];
        put(i, [cell], ink);
      },
      over: (cells) => {
        held = cells.at(-1);
        put(i, cells, ink);
      },
      undo: () => change({ painted: before }), // the finger scrolled
    });
    const told = node("span"), iou = node("span");
    const element = div("", made, div("vb-found", told, iou));
    return {
      element,
      draw(scores) {
        const marks = state.painted[i], large = scores && enlarged(scores, grid, side);
        const mask = large?.map((score) => score > 0), found = mask && overlap(mask, truths[i]);
        paint(veil, side, side, (cell) => veilAt(!mask || mask[cell] ? 1 : DIM));
        edges.put(mask ? outline(mask, side) : "", state.truth ? outline(truths[i], side) : "");
        dots.put(...spots(marks, columns));
        show();
        told.textContent = marks.some(Boolean) ? `${name}, painted` : name;
        iou.textContent = mask ? `IoU ${found.toFixed(2)}` : "";
        return found;
      },
    };
  }
  const surfaces = photos.map(surface);

  const given = start.map((marks) => marks.some(Boolean)); // photographs that the task is about

  /** What is said of these overlaps, and whether they reach the goal. */
  function judged(ious, count) {
    const isPainted = state.painted.map((marks) => marks.some(Boolean));
    const [unpainted, others] = [false, true].map((on) => ious.filter((_, i) => isPainted[i] === on));
    const says = `${counted(count, "patch is", "patches are")} painted. Mean IoU: ` + [
      unpainted.length && `${mean(unpainted).toFixed(2)} on ${counted(unpainted.length, "photograph", "photographs")} not painted`,
      `${mean(others).toFixed(2)} on ${others.length} painted`,
    ].filter(Boolean).join(", ") + ". ";
    const [least, most] = data.goal ?? [], good = data.goal && mean(unpainted) >= least;
    const many = count > most, beside = isPainted.some((is, i) => is && !given[i]);
    const more = good && many ? `The task allows ${most} patches. `
      : good && beside ? `The task allows paint on ${photos.filter((_, i) => given[i]).map(([name]) => name).join(", ")} alone. ` : "";
    return { says: says + more, reached: good && !more &&
      `${mean(unpainted).toFixed(2)} on photographs not painted, with ${counted(count, "patch", "patches")}.` };
  }

  function draw({ source, brush: kind, truth, painted }) {
    const marks = painted.flat(), scores = headScores(levels[source], marks, data.penalty);
    const ious = surfaces.map((each, i) => each.draw(scores?.subarray(i * patches, (i + 1) * patches)));
    const lacks = ["object", "background"].filter((_, i) => !marks.includes(KINDS[i]));
    const { says, reached } = scores ? judged(ious, marks.filter(Boolean).length) : {
      says: `Drag over ${lacks.length > 1 ? "patches of an object, then over its background"
        : lacks[0] === "object" ? "some patches of an object too" : "some patches of the background too"}: the head needs both. `,
    };
    const words = marks.map((mark, i) => mark && `${i}${mark > 0 ? "+" : "-"}`).filter(Boolean).join(".");
    return { says, reached, told: { scores: scores && Array.from(scores), ious },
      named: { source, brush: kind, truth, painted: words || "none" } };
  }

  const tools = figure.chooser("brush", "brush", BRUSHES, { kind: "vb-choice", face: (i) => {
    if (!SPOTS[KINDS[i]]) return node("span", {}, BRUSHES[i]);
    const icon = over([1, 1], "vb-object", "vb-background");
    icon.put(...spots([KINDS[i]], 1));
    return node("span", { class: "vb-tool" }, icon.element, BRUSHES[i]);
  } });
  const sources = figure.select("source", "what the head reads",
    data.sources.map(([name], i) => [i, name]), { part: (i) => ({ source: Number(i) }) });
  figure.stage(draw,
    div("vb-controls",
      data.sources.length < 2 ? "" : node("label", { class: "vb-reads" }, "The head reads ", sources),
      figure.toggle("truth", "True masks"),
      figure.button("clear", "Clear", () => change({ painted: blank })), figure.reset),
    tools,
    div("vb-canvasses", ...surfaces.map(({ element }) => element)));
}
