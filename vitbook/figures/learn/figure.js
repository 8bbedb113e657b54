import { node, set } from "../parts/page.js";
import { argmax, softmax } from "../parts/numbers.js";
import { paint } from "../parts/paint.js";
import { canvas, classBars, div, label, labelled, note } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { shelf } from "../parts/pieces.js";
import { pixelsOf } from "../parts/ink.js";
import { drawingPad } from "../parts/pad.js";
import { curves } from "./curves.js";
import { insideOf } from "./inside.js";
import { asFile, fromFile, isRun, nameOf, shelved } from "./keeping.js";
import { BATCH, CHANGES, numbersOf, runOf, unpacked } from "./run.js";

const SHOWN_WRONG = 24;
const GOALS = [0.5, 0.75, 0.9, 0.95, 0.97];
const GUESSES = { more: "more than plain", same: "about as many", fewer: "fewer than plain" };
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const counted = (number) => number.toLocaleString("en");

/** Weights of a model that cuts digits into 16 patches of 4 pixels. */
const countWeights = ({ width, depth, hidden }) => width * (1 + 5 + 17 + 2 + 10) + 10 +
  depth * (4 * width * width + 2 * width * hidden + 9 * width + hidden);

/**
 * @param {HTMLElement} root
 * @param {{pieces: {digits: string, wasm: string, worker: string}, counts: [number[], number[]], examples: number[][],
 *   side: number, levels: number, classes: string[], sizes: object, steps: number, change: ?string, ramp: string[],
 *   task: string}} data
 */
export function render(root, data) {
  const { side, levels, classes, sizes, steps } = data, pixels = side * side;
  const many = data.counts.map((counts) => counts.reduce((a, b) => a + b, 0));
  const start = { size: Object.keys(sizes)[0], change: data.change ?? "none", seed: 0, guess: null, back: -1, shown: 0, digit: 4, strokes: [] };
  const figure = live(root, data, start);
  const { state, change } = figure;
  let phase = "fresh", runs = [], trouble = "", hidden = false;
  const store = shelved(data.change ?? "learn");

  // --- what a run needs, which comes when the first one begins ----------------------------------------------------
  let parts = null, waiting = null, lost = "";
  const ask = shelf(root, arrived, (reason) => {
    lost = `What it needs could not be loaded (${reason}): load the page again. `;
    fail(lost);
  });
  function arrived() {
    const [digits, wasm, worker] = ["digits", "wasm", "worker"].map((name) => ask(data.pieces[name], (raw) => raw));
    if (!digits || !wasm || !worker) return;
    if (!parts) {
      const [train, held] = [digits.subarray(0, many[0] * pixels), digits.subarray(many[0] * pixels)].map((raw, i) =>
        unpacked(raw, data.counts[i], pixels));
      parts = { wasm, worker: new TextDecoder().decode(worker), train, held };
    }
    const then = waiting;
    waiting = null;
    try {
      then?.();
    } catch (error) {
      fail(`The training could not begin (${error.message}). `);
    }
  }
  function fail(words) {
    runs.forEach((each) => each.stop());
    [runs, phase, trouble] = [[], "failed", words];
    change({});
  }
  /** Do this once all is there. */
  function ready(then) {
    if (lost) return fail(lost);
    waiting = then;
    arrived();
  }

  // --- runs ---------------------------------------------------------------------------------------------------
  function run(kind, given) {
    const { size, seed } = state;
    const restored = Boolean(given.state);
    const made = runOf(data, parts, { kind, size, seed }, given, (what, { step, back, reason }) => {
      if (!runs.includes(made)) return;
      if (what === "told") look(made);
      if (what === "diverged") trouble = `At step ${step} the loss is no number any more: the rate is too high. Shown is step ${back}, the last one kept. `;
      if (what === "failed") trouble = `The training could not go on (${reason}). Press Reset, or take the smaller model. `;
      if (what === "failed" && restored && !made.kept.length) return clear(); // it was of another model
      if ((phase === "training" || phase === "paused") && runs.every((each) => each.ended)) {
        phase = "done";
        keep();
      }
      change({});
    });
    return made;
  }
  const wipe = figure.button("clear", "Clear the pad", () => (change({ strokes: [] }), look()));
  const drawn = () => state.strokes.length > 0;
  const shownInk = () => drawn() ? Array.from(pixelsOf(state.strokes, [side, side], levels), (p) => p / 255 * levels)
    : data.examples[state.digit];
  const looked = () => runs[Math.min(state.shown, runs.length - 1)];
  /** What a run had told at the step that is shown. */
  const then = (each) => each && (state.back < 0 || !each.kept.length ? each.told.at(-1)
    : each.told.find(({ step }) => step === each.kept[Math.min(state.back, each.kept.length - 1)]));
  function look(each = looked()) {
    if (each?.told.length) each.post("look", { image: numbersOf(shownInk(), levels), step: then(each).step });
  }

  function begin(kinds, given = {}, part = {}, words = "") {
    if (typeof Worker === "undefined" || typeof WebAssembly === "undefined") return refuse();
    const others = document.querySelectorAll('[data-figure="learn"][data-phase="training"]');
    if ([...others].some((other) => other !== root) && !window.confirm?.(
      "Another model is learning on this page, and two share the machine. Start this one too?")) return;
    runs.forEach((each) => each.stop());
    [runs, trouble, phase] = [[], words, "training"];
    change({ back: -1, shown: kinds.length - 1, ...part });
    ready(() => {
      if (!WebAssembly.validate(parts.wasm)) return refuse();
      runs = kinds.map((kind) => run(kind, given));
      if (phase === "paused") runs.forEach((each) => each.post("pause")); // while it was loaded
    });
  }
  function refuse() {
    phase = "failed";
    trouble = "This browser cannot train it: that needs workers, and WebAssembly with SIMD, as Chrome 91, Firefox 89 " +
      "and Safari 16.4 have them. The other figures work without. ";
    change({});
  }
  function both(guess) {
    change({ guess });
    begin(["none", state.change]);
    button.focus();
  }
  function press() {
    if (phase === "training") pause();
    else if (phase === "paused") go();
    else begin(state.change === "none" ? ["none"] : ["none", state.change]);
  }
  function pause() {
    phase = "paused";
    runs.forEach((each) => each.ended || each.post("pause"));
    keep();
    change({});
  }
  function go(back = -1) {
    [phase, trouble] = ["training", ""];
    runs.forEach((each) => each.ended || each.post("go"));
    change({ back });
  }
  // A page that nobody sees does not compute, nor does one on the last of a battery.
  document.addEventListener?.("visibilitychange", () => {
    if (document.hidden && phase === "training") {
      hidden = true;
      pause();
    } else if (!document.hidden && hidden) {
      hidden = false;
      if (phase === "paused") go(state.back);
    }
  });
  globalThis.navigator?.getBattery?.().then((battery) => battery.addEventListener("levelchange", () => {
    if (phase !== "training" || battery.charging || battery.level > 0.15) return;
    trouble = "The battery is low, so the training waits. ";
    pause();
  }), () => {});

  // --- what is kept: in the browser, so that a closed tab loses nothing, and in a file ------------------------
  let keeping = false;
  async function keep() {
    if (keeping || !runs.length || runs.some((each) => each.ended === "failed")) return;
    keeping = true;
    const asked = runs, states = await Promise.all(runs.map((each) => each.ask("state")));
    keeping = false;
    if (asked !== runs || states.some((each) => !each)) return; // they were stopped meanwhile
    const { size, change: which, seed, guess } = state;
    const kept = { size, change: which, seed, guess, runs: runs.map(({ kind, told, ended }, i) => ({ kind, told, ended, state: states[i].state })) };
    if (await store.put(kept) || trouble) return;
    trouble = "This browser keeps nothing for this page, so a closed tab loses the run. ";
    change({});
  }
  if (globalThis.setInterval && root.isConnected) setInterval(() => {
    if (phase !== "training") return;
    if (root.isConnected) keep();
    else pause(); // its output was cleared
  }, 4000);
  store.get().then((kept) => {
    if (phase !== "fresh" || !isRun(kept, sizes, steps)) return;
    ready(() => {
      if (!WebAssembly.validate(parts.wasm)) return;
      Object.assign(state, { size: kept.size, change: kept.change, seed: kept.seed, guess: kept.guess });
      runs = kept.runs.map(({ kind, told, ended, state: then }) => {
        const mine = run(kind, { state: then, paused: true });
        mine.told.push(...told.filter(({ step }) => step <= then.step));
        mine.ended = ended;
        return mine;
      });
      phase = runs.every((each) => each.ended) ? "done" : "paused";
      trouble = "Your run was kept when the page was closed, and goes on from its last step. ";
      change({ shown: runs.length - 1 });
    });
  });
  async function save() {
    const each = looked(), answer = await each.ask("weights", { step: then(each).step });
    if (!answer) return;
    const { places, shapes, values, step } = answer;
    const { size, told, settings, seed } = each;
    const { bytes: file, name } = asFile({ shapes, values, places, classes, side, settings, size,
      about: { step, seed, images: step * BATCH, accuracy: told.find((t) => t.step === step).accuracy } });
    const link = node("a", { href: URL.createObjectURL(new Blob([file])), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    const found = nameOf(size, settings) ? `: in Python, vitbook.load_checkpoint("${name}") is your model` : ", a model that the library has no name for";
    trouble = `Kept as ${name}${found}. `;
    change({});
  }
  async function take(file) {
    try {
      const { size, values } = fromFile(await file.arrayBuffer(), sizes, { side, classes: classes.length });
      begin(["none"], { values }, { size, change: "none" }, `It learns on from ${file.name}. `);
    } catch (error) {
      trouble = `${file.name} could not be taken: ${error.message}. `;
      change({});
    }
  }

  // --- what is drawn ------------------------------------------------------------------------------------------
  const button = figure.button("train", "Train", press);
  button.classList.add("vb-train");
  /** Nothing runs any more, and nothing is kept. */
  function clear(part = {}) {
    runs.forEach((each) => each.stop());
    [runs, phase, trouble, waiting] = [[], "fresh", "", null];
    store.put(null);
    change({ back: -1, guess: null, shown: 0, ...part });
  }
  const over = figure.button("reset", "Reset", () => clear(start));
  const size = figure.select("size", "size of the model", Object.entries(sizes).map(([name, { depth, width }]) =>
    [name, `${name}: ${depth} blocks of width ${width}`]));
  const choice = figure.select("change", "what differs in a second model", [["none", "one model learns"],
    ["beside it, a second one:", Object.entries(CHANGES).map(([name, [words]]) => [name, words])]]);
  const seed = figure.select("seed", "first weights", [0, 1, 2, 3, 4].map((i) => [i, `first weights ${i + 1}`]),
    { part: (value) => ({ seed: Number(value) }) });
  for (const each of [size, choice, seed]) each.addEventListener("change", () => (phase !== "fresh" || waiting) && clear());
  const guess = div("vb-controls", node("span", {}), ...Object.entries(GUESSES).map(([key, words]) =>
    figure.button(`guess-${key}`, `${words[0].toUpperCase()}${words.slice(1)}`, () => both(key))));
  const status = note(" "), chart = curves(steps * BATCH), tabs = [0, 1].map(() => node("span"));
  const shown = figure.chooser("shown", "which of the two is shown below", ["the plain one", "the other one"], {
    face: (i) => tabs[i], kind: "vb-choice", part: (i) => (queueMicrotask(() => look()), { shown: i }) });
  const which = div(null, label("Shown below"), shown);
  const slider = figure.slider("back", "Back in time", { max: 1,
    at: () => state.back < 0 ? Math.max((looked()?.kept.length ?? 1) - 1, 0) : state.back,
    tell: () => then(looked()) ? `after ${counted(then(looked()).images)} images` : "not begun",
    part: (i) => (queueMicrotask(() => look()), { back: i >= looked()?.kept.length - 1 ? -1 : i }) });
  const [, range] = slider.children;
  const faces = Array.from({ length: SHOWN_WRONG }, () => {
    const sheet = canvas(), read = node("span");
    return { sheet, read, box: node("div", { role: "img" }, sheet, read) };
  });
  const wrong = div("vb-wrongs", ...faces.map(({ box }) => box)), wrongTold = label();
  const bars = classBars(classes), inside = insideOf(side, data.ramp);
  const pad = drawingPad([side, side], {
    ink: () => ({ strokes: state.strokes, pixels: drawn() ? null : shownInk().map((v) => v * 255 / levels) }),
    erasing: () => false,
    changed: ({ strokes }) => (change({ strokes }), look()),
  });
  const thumb = (sheet, ink) => paint(sheet, side, side, (p) => Array(3).fill(ink[p] * 255 / levels));
  const examples = figure.chooser("digit", "a held-out digit", classes.map((name) => `a ${name}`), {
    face: (i) => {
      const sheet = canvas();
      thumb(sheet, data.examples[i]);
      return sheet;
    },
    at: () => drawn() ? -1 : state.digit, part: (digit) => (queueMicrotask(() => look()), { digit, strokes: [] }) });
  const file = node("input", { type: "file", accept: ".safetensors", hidden: true, onchange: () => {
    if (file.files[0]) take(file.files[0]);
    file.value = "";
  } });
  const filed = (kind, words, onclick) => node("button", { type: "button", class: kind, onclick }, words);
  const kept = div("vb-controls", filed("vb-save", "Keep this model as a file", save),
    filed("vb-take", "Train on from a file", () => file.click()), file);

  const mixed = Array.from({ length: many[1] }, (_, i) => i * 97 % many[1]); // not all zeros first
  function mistakes(now) {
    const held = parts?.held, rows = now ? mixed.filter((i) => now.answers[i] !== held.labels[i]) : [];
    faces.forEach(({ sheet, read, box }, i) => {
      const row = rows[i];
      box.hidden = row === undefined;
      if (box.hidden) return;
      thumb(sheet, held.ink.subarray(row * pixels, (row + 1) * pixels));
      const [is, as] = [classes[held.labels[row]], classes[now.answers[row]]];
      read.textContent = `${is} → ${as ?? "–"}`;
      set(box, { "aria-label": `a ${is}, read as ${as ?? "nothing"}` });
    });
    wrongTold.textContent = !now ? "What it reads wrong will stand here"
      : `${rows.length} of ${many[1]} digits are read wrong${rows.length > SHOWN_WRONG ? `, ${SHOWN_WRONG} of them here` : ""}; ` +
        "below each, what it is → what is read";
  }
  const named = (kind) => kind === "none" ? "plain" : CHANGES[kind][1];
  /** What came of two runs, against what the reader guessed: a difference within what chance makes is none. */
  function verdict() {
    if (!runs.every((each) => each.told.length)) return "";
    const [plain, other] = runs.map((each) => each.told.at(-1)), { labels } = parts.held, name = named(runs[1].kind);
    const [up, down] = [[other, plain], [plain, other]].map(([one, two]) =>
      labels.reduce((sum, label, i) => sum + (one.answers[i] === label && two.answers[i] !== label), 0));
    const came = Math.abs(up - down) <= 2 * Math.sqrt(up + down) ? "same" : up > down ? "more" : "fewer";
    const told = `Plain it reads ${percent(plain.accuracy)}, ${name} ${percent(other.accuracy)}` + (came !== "same" ? ". "
      : up === down ? ": the same number. " : `: ${Math.abs(up - down)} digits of ${many[1]} apart, which other first weights may turn round. `);
    const right = !state.guess ? "" : state.guess === came ? "You guessed right. " : `You guessed “${GUESSES[state.guess]}”, and it is “${GUESSES[came]}”. `;
    return `${told}${right}${CHANGES[runs[1].kind][3]} `;
  }
  /** What a screen reader is told: where something new has begun, not every number on the way. */
  function milestones() {
    const last = runs.at(-1)?.told.at(-1);
    if (trouble && (phase !== "done" || !last)) return trouble;
    if (phase === "fresh") return `Its ${counted(countWeights(sizes[state.size]))} weights are drawn by chance ` +
      `(first weights ${state.seed + 1} of 5): it guesses, and reads about one digit in ten. `;
    if (!last) return "It starts. ";
    const who = runs.length < 2 ? "It" : `The model ${named(runs[1].kind)}`;
    const passed = GOALS.filter((goal) => runs.at(-1).told.some((t) => t.accuracy >= goal)).at(-1);
    if (phase === "done") return `${trouble}${runs.length > 1 ? verdict() : `After ${counted(last.images)} images it reads ` +
      `${percent(last.accuracy)} of the held-out digits. `}It is yours: draw for it, go back in time, or keep it. `;
    if (phase === "paused") return "Paused. ";
    return passed ? `${who} has passed ${Math.round(100 * passed)} %. ` : `${who} is in training. `;
  }

  function draw() {
    const each = looked(), now = then(each);
    set(range, { max: Math.max((each?.kept.length ?? 1) - 1, 1) });
    slider.hidden = !(each?.kept.length > 1);
    button.textContent = { fresh: "Train", training: "Pause", paused: "Go on", done: "Train again", failed: "Try again" }[phase];
    root.dataset.phase = phase;
    const second = state.change !== "none";
    button.hidden = second && phase === "fresh";
    guess.hidden = !second || phase !== "fresh";
    if (second) guess.firstChild.textContent = `Your guess starts both. ${named(state.change).replace(/^./, (c) => c.toUpperCase())} it will in the end read`;
    choice.hidden = Boolean(data.change);
    which.hidden = runs.length < 2;
    runs.forEach((run, i) => (tabs[i].textContent = named(run.kind)));
    chart.show(runs, runs.map(({ kind }) => named(kind)), now);
    status.textContent = !now ? " " : `${counted(now.images)} images in ${now.seconds.toFixed(1)} s` +
      `${now.loss === null ? "" : `, loss ${now.loss.toFixed(2)}`}, ${percent(now.accuracy)} of ${many[1]} held-out digits right`;
    mistakes(now);
    inside.show(each);
    pad.show();
    wipe.hidden = !drawn();
    const chances = each?.seen ? softmax([...each.seen.logits]) : Array(classes.length).fill(1 / classes.length);
    bars.show(chances);
    kept.firstChild.hidden = !now;
    return { says: milestones(), reached: now?.accuracy >= 0.9 && drawn() && `the model that is shown reads nine of ten, and your drawing as ${classes[argmax(chances)]}.`,
      told: { runs }, named: { size: state.size, change: state.change, seed: state.seed, phase, back: state.back, shown: state.shown, digit: state.digit, ink: state.strokes.length } };
  }

  const made = figure.stage(draw,
    div("vb-controls", button, over, size, choice, seed), guess,
    chart.element, status, slider, kept, which,
    wrongTold, wrong,
    label("Take a held-out digit, or draw one for it"), examples,
    div("vb-reader",
      div("vb-wide", label("Draw here"), pad.element, wipe),
      inside.looks,
      labelled("What it reads", ...bars.elements)),
    inside.learned);
  chart.element.after(made.querySelector(".vb-readout")); // in sight of the button
}
