import { node, set } from "../parts/page.js";
import { bytes, clamp, place, weightOf } from "../parts/numbers.js";
import { canvas, classBars, div, drag } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { BEFORE, cellOf, flowBetween, flowPlan, flowScene, layerOf, middleOf, tagOf } from "./scenes.js";
import { paintFlow } from "./sheet.js";
import { flowOf } from "./look.js";
import { flowSentence } from "./words.js";

// Milliseconds: of a flight between grid and row, of any other change, and to read in while it plays.
const FLIGHT = 1300, CHANGE = 650, READ = 2300, READ_LAYER = 650;
const KEYS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** What is packed in the page, by name, as numbers. */
const unpacked = (data) => ({
  ...data, colors: bytes(data.colors), seen: new Uint16Array(bytes(data.seen).buffer),
  weights: Array.from(bytes(data.weights), (byte) => weightOf(byte, data.top)),
  means: Array.from(bytes(data.means ?? ""), (byte) => byte / 255),
});

/**
 * A photograph of the reader's own, which another figure of the page has looked at, takes the place
 * of the one that came with the figure. That one tells by an event; what it told last is kept, in
 * case that this figure is not live yet.
 * @param {HTMLElement} root
 * @param {{photo: string, grid: [number, number], patch: number, width: number, channels: number,
 *   prefix: number, depth: number, lines: number, colors: string, seen: string, weights: string,
 *   top: number, stops: number[], veil: ?string, means: ?string, answer: ?[number, number],
 *   names: ?[string, number][], meaning: string, small: boolean, start: number}} data
 */
export function render(root, data) {
  const follow = (look) => {
    root.querySelector(".vb-live")?.remove();
    renderFlow(root, flowOf(data, look));
  };
  if (!data.small) document.addEventListener("vitbook-look", (event) => follow(event.detail));
  renderFlow(root, unpacked(data));
  if (!data.small && window.vitbookLook) follow(window.vitbookLook);
}

function renderFlow(root, data) {
  const { grid: [rows, columns], prefix, depth, lines } = data;
  const count = rows * columns, all = count + prefix, last = BEFORE + data.stops.length;
  const packed = Float32Array.from(data.colors);
  const colors = Array.from({ length: depth + 1 }, (_, i) => packed.subarray(3 * i * all, 3 * (i + 1) * all));
  const { seen, weights } = data;
  const figure = live(root, data, { step: 0, patch: data.start, playing: false });
  const { state, change } = figure;
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

  /** [token, weight] of the tokens that a patch looks at most in a layer, from 1. */
  const looks = (layer, patch) => Array.from({ length: lines }, (_, i) => {
    const at = ((layer - 1) * count + patch) * lines + i;
    return [seen[at], weights[at]];
  });

  // What is drawn: pixels on a canvas; over it, what follows the theme.
  const [photo, veil] = [data.photo, data.veil].map((src) => {
    if (!src) return null;
    const made = new Image();
    made.src = src;
    made.decode().then(() => shown && paintScene());
    return made;
  });
  const strips = colors.map((color) => {
    const made = canvas();
    set(made, { width: all, height: 1 });
    const found = made.getContext("2d").createImageData(all, 1);
    for (let i = 0; i < all; i++) found.data.set([...color.subarray(3 * i, 3 * i + 3), 255], 4 * i);
    made.getContext("2d").putImageData(found, 0, 0);
    return made;
  });
  const sheet = canvas("vb-flow-sheet"), context = sheet.getContext("2d");
  const drawing = node("svg:svg", { class: "vb-flow-lines", "aria-hidden": "true" });
  const rings = [0, 1, 2, 3].map(() => node("i", { class: "vb-asked" }));
  const main = div("vb-flow-main"), words = [0, 1, 2].map(() => div("vb-label"));
  const handle = node("button", {
    type: "button", class: "vb-touch", "data-control": "patch",
    "aria-label": "followed patch; arrow keys choose another",
  });
  const bars = classBars(data.names?.map(([name]) => name) ?? []), list = div("vb-flow-names", ...bars.elements);
  if (data.names) bars.show(data.names.map(([, share]) => share));
  const stage = div("vb-flow", main, sheet, drawing, ...rings, ...words, list, handle);

  let plan, shown = null, goal = null, frame = 0, timer = 0, moving = null;

  function paintScene() {
    const found = shown.layer ? looks(shown.layer, state.patch) : [];
    paintFlow(context, plan, shown, { photo, veil, strips, found, patch: state.patch });
    paintOver(found);
  }

  /** Frames, lines and words over the pixels. */
  function paintOver(found) {
    const { parts, layer, places, lines: bands } = shown, { patch } = state;
    const x = middleOf(plan, prefix + patch), label = tagOf(plan, patch);
    const put = (element, [left, top, width, height], alpha = 1) => Object.assign(element.style, {
      left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`, opacity: alpha,
      visibility: alpha < 0.02 ? "hidden" : "visible",
    });
    const at = [...places.subarray(4 * patch, 4 * patch + 4)];
    put(rings[0], at, at[2] < 9 ? 0 : 1);
    put(rings[1], cellOf(plan, plan.left, patch), parts.ghost);
    put(rings[2], cellOf(plan, plan.right, patch), parts.right);
    put(rings[3], label, parts.flat); // a copy above its token in the row
    const foot = parts.y + parts.high, made = [];
    if (parts.flat > 0.02) {
      const rest = { opacity: parts.flat };
      made.push(node("svg:path", { ...rest, class: "vb-flow-own", d: `M${x} ${label[1] + label[3]}V${foot + 5}` }));
    }
    if (layer && parts.fan > 0.02) {
      const from = bands[3 * layer - 3] + bands[3 * layer - 2], to = parts.y, half = (from + to) / 2;
      for (const [token, weight] of found) {
        const start = middleOf(plan, token), part = weight / data.top;
        made.unshift(node("svg:path", {
          class: "vb-flow-look", opacity: parts.fan * moment() * (0.45 + 0.55 * Math.sqrt(part)),
          "stroke-width": 1 + 5 * Math.sqrt(part),
          d: `M${start} ${from}C${start} ${half} ${x} ${half} ${x} ${to}`,
        }));
      }
      made.push(node("svg:circle", { class: "vb-flow-end", cx: x, cy: to, r: 4.5, opacity: parts.fan }));
    }
    drawing.replaceChildren(...made);
    put(words[0], [plan.left.x, 0, plan.left.cell * columns, plan.words], parts.ghost);
    put(words[1], [plan.right.x, 0, plan.right.cell * columns, plan.words], parts.right + parts.zoom);
    put(words[2], [0, foot + 3, plan.width, plan.words], parts.flat);
    put(list, plan.list ?? [0, 0, 0, 0], plan.list ? parts.answer : 0);
  }
  /** How far a change is, 0 to 1; the lines of a new layer come with it. */
  const moment = () => (moving ? clamp((performance.now() - moving.began) / moving.time, 0, 1) ** 2 : 1);

  function tick() {
    const part = clamp((performance.now() - moving.began) / moving.time, 0, 1);
    shown = flowBetween(moving.from, goal, part);
    if (part === 1) moving = null;
    root.moving = Boolean(moving);
    paintScene();
    if (moving) frame = requestAnimationFrame(tick);
  }
  function goTo(step) {
    const next = flowScene(plan, step, colors), still = !shown || calm.matches;
    if (goal && goal.step === step && goal.plan === plan) return moving || paintScene();
    cancelAnimationFrame(frame);
    moving = still || goal.plan !== plan ? null
      : { from: shown, began: performance.now(), time: shown.flat === next.flat ? CHANGE : FLIGHT };
    goal = Object.assign(next, { plan });
    if (moving) return tick();
    shown = goal;
    root.moving = false;
    paintScene();
  }
  function lay() {
    const width = Math.round(stage.clientWidth);
    if (!width || plan?.width === width) return;
    plan = flowPlan(width, data);
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    set(sheet, { width: Math.round(width * ratio), height: Math.round(plan.height * ratio) });
    stage.style.height = `${plan.height}px`;
    set(drawing, { viewBox: `0 0 ${width} ${plan.height}` });
    const { x, y, cell } = plan.closed;
    Object.assign(main.style, { left: `${x}px`, top: `${y}px`, width: `${cell * columns}px`, height: `${cell * rows}px` });
  }

  // Which patch is followed.
  const inGrid = ({ x, y, cell }, across, down) => {
    const [column, row] = [Math.floor((across - x) / cell), Math.floor((down - y) / cell)];
    return column >= 0 && column < columns && row >= 0 && row < rows ? row * columns + column : -1;
  };
  const gridNow = () => (state.step === 1 ? plan.open : goal.flat ? plan.left
    : state.step === last ? plan.answer : plan.closed);
  function touch(across, down) {
    const [x, y] = [across * plan.width, down * plan.height];
    let patch = inGrid(gridNow(), x, y);
    if (goal.flat && patch < 0) patch = inGrid(plan.right, x, y);
    if (goal.flat && patch < 0 && y > plan.top - 4 && y < goal.parts.y + goal.parts.high + 8) {
      patch = clamp(Math.floor((x - plan.first) / plan.unit), 0, count - 1);
    }
    if (patch >= 0) change({ patch });
  }
  drag(stage, {
    handle, move: touch,
    walk: (down, right) => {
      const [row, column] = place(state.patch, columns);
      change({ patch: clamp(row + down, 0, rows - 1) * columns + clamp(column + right, 0, columns - 1) });
    },
  });

  // Which step is shown.
  const go = (step) => change({ step: clamp(step, 0, last), playing: false });
  const keys = (button) => set(button, {
    onkeydown: (event) => {
      if (!KEYS[event.key]) return;
      event.preventDefault();
      go(state.step + KEYS[event.key]);
    },
  });
  const names = ["Photo", "Patches", "Row", "Tokens", "Layers", "Answer"];
  const phase = (step) => (step < BEFORE ? step : step < last ? BEFORE : BEFORE + 1);
  const steps = figure.chooser("phase", "step", names, {
    face: (i) => node("span", {}, names[i]), kind: "vb-flow-steps", at: () => phase(state.step),
    part: (i) => ({ step: i > BEFORE ? last : i, playing: false }),
  });
  const back = keys(figure.button("back", "Back", () => go(state.step - 1)));
  const next = keys(figure.button("next", "Next", () => go(state.step < last ? state.step + 1 : 0)));
  const play = keys(figure.button("play", "Play", () =>
    change(state.playing ? { playing: false } : { playing: true, step: state.step < last ? state.step : 0 })));
  next.classList.add("vb-flow-next");
  const slider = data.small ? "" : figure.slider("layer", "Layer", {
    min: 0, max: depth, at: () => clamp(state.step - BEFORE + 1, 0, depth),
    tell: (layer) => `${layer} of ${depth}`, part: (layer) => ({ step: BEFORE - 1 + layer, playing: false }),
  });

  function draw({ step, patch, playing }) {
    clearTimeout(timer);
    lay();
    back.classList.toggle("vb-flow-idle", step === 0);
    next.textContent = step < last ? "Next" : "Once more";
    play.textContent = playing ? "Pause" : "Play";
    const layer = layerOf(data, step);
    words[0].textContent = layer ? "what it attends to" : "where it was cut";
    words[1].textContent = step === 2 ? "the framed patch" : "tokens as colours";
    words[2].textContent = step === 2 ? `${count} patches` : layer ? `after layer ${layer}: ${all} tokens`
      : `${prefix ? "class token + " : ""}${count} patch tokens`;
    if (plan) {
      goTo(step);
      const [left, top, width, height] = cellOf(plan, gridNow(), patch);
      Object.assign(handle.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    }
    if (playing) {
      const read = (step >= BEFORE ? READ_LAYER : READ) + CHANGE;
      timer = setTimeout(() => change({ step: step + 1, playing: step + 1 < last }), read);
    }
    const found = layer && step < last ? looks(layer, patch) : [];
    return { says: flowSentence(data, step, patch, found), told: { looks: found } };
  }

  figure.stage(draw, stage, steps, div("vb-controls", back, next, play, slider, figure.reset));
  new ResizeObserver(() => stage.clientWidth !== plan?.width && change({})).observe(stage);
}
