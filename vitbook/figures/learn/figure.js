import { node, set } from "../parts/page.js";
import { argmax, softmax } from "../parts/numbers.js";
import { canvas, classBars, div, label, labelled, note } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { pixelsOf } from "../parts/handprint.js";
import { drawingPad } from "../parts/pad.js";
import { curves } from "./curves.js";
import { asFile, fromFile, nameOf } from "./file.js";
import { insideOf } from "./inside.js";
import { BATCH, called, CHANGES, named, numbersOf } from "./run.js";
import { trainingOf } from "./training.js";
import { counted, GUESSES, guessesOf, milestones, percent } from "./words.js";
import { thumb, wrongOf } from "./wrong.js";

const RATES = 4; // doublings of the learning rate, up; half as many down
const PRESS = { fresh: "Train", training: "Pause", paused: "Go on", done: "Train again", failed: "Try again" };

/**
 * @param {HTMLElement} root
 * @param {{pieces: Record<string, string>, counts: [number[], number[]], examples: number[][], side: number,
 *   levels: number, classes: string[], sizes: object, size: string, steps: number, change: ?string, ramp: string[],
 *   task: string}} data
 */
export function render(root, data) {
  const { side, levels, classes, sizes } = data;
  const start = { size: data.size, change: data.change ?? "none", seed: 0, rate: 0, guess: null, back: -1, shown: 0, digit: 4, strokes: [] };
  const figure = live(root, data, start), { state, change } = figure;
  const training = trainingOf(root, data, figure, (run) => look(run));

  // --- what is looked at --------------------------------------------------------------------------------------------
  const looked = () => training.runs[Math.min(state.shown, training.runs.length - 1)];
  /** What a run had told at the step that is shown. */
  const then = (run) => run && (state.back < 0 || !run.kept.length ? run.told.at(-1)
    : run.told.find(({ step }) => step === run.kept[Math.min(state.back, run.kept.length - 1)]));
  const drawn = () => state.strokes.length > 0;
  const shownInk = () => drawn() ? Array.from(pixelsOf(state.strokes, [side, side], levels), (p) => p / 255 * levels)
    : data.examples[state.digit];
  /** Ask a run what it makes of the digit that is shown. */
  function look(run = looked()) {
    if (run?.told.length) run.post("look", { image: numbersOf(shownInk(), levels), step: then(run).step });
  }
  const looks = (part) => (queueMicrotask(() => look()), part);

  // --- files --------------------------------------------------------------------------------------------------------
  async function save() {
    const run = looked(), answer = await run.ask("weights", { step: then(run).step });
    if (!answer) return;
    const { size, told, settings, seed } = run, accuracy = told.find(({ step }) => step === answer.step)?.accuracy;
    const about = { step: answer.step, seed, images: answer.step * BATCH, accuracy };
    const { bytes, name } = asFile({ ...answer, classes, side, settings, size, about });
    const link = node("a", { href: URL.createObjectURL(new Blob([bytes])), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    training.trouble = `Kept as ${name}${nameOf(size, settings) ? `: in Python, vitbook.load_checkpoint("${name}") is your model`
      : ", a model that the library has no name for"}. `;
    change({});
  }
  async function take(file) {
    try {
      const { size, values } = fromFile(await file.arrayBuffer(), data);
      training.begin(["none"], { values }, { size, change: data.change ?? "none", rate: 0 }, `The training goes on from ${file.name}. `);
    } catch (error) {
      training.trouble = `${file.name} could not be taken: ${error.message}. `;
      change({});
    }
  }

  // --- controls -----------------------------------------------------------------------------------------------------
  const kinds = () => state.change === "none" ? ["none"] : ["none", state.change];
  const button = figure.button("train", PRESS.fresh, () => {
    if (training.phase === "training") training.pause();
    else if (training.phase === "paused") training.go();
    else training.begin(kinds());
  });
  button.classList.add("vb-train");
  const over = figure.button("reset", "Reset", () => training.clear(start));
  const size = figure.select("size", "size of the model", Object.entries(sizes).map(([name, { depth, width }]) =>
    [name, `${name}: ${depth} blocks of width ${width}`]));
  const choice = figure.select("change", "what differs in a second model", [["none", "one model learns"],
    ["beside it, a second one:", Object.entries(CHANGES).map(([kind, { menu }]) => [kind, menu])]],
    { part: (change) => ({ change, rate: CHANGES[change]?.rate ? state.rate : 0 }) }); // no rate that is not in sight
  const seed = figure.select("seed", "first weights", [0, 1, 2, 3, 4].map((i) => [i, `first weights ${i + 1}`]),
    { part: (value) => ({ seed: Number(value) }) });
  const rate = figure.slider("rate", "Learning rate of both", { min: -RATES / 2, max: RATES,
    tell: (power) => power ? `${2 ** power} times the usual one` : "the usual one" });
  for (const each of [size, choice, seed, rate]) each.addEventListener("change", training.prepare);
  const guesses = Object.entries(GUESSES).map(([key, words]) =>
    [key, figure.button(`guess-${key}`, words.replace(/^./, (c) => c.toUpperCase()), () => {
      change({ guess: key });
      training.begin(kinds());
      button.focus();
    })]);
  const guess = div("vb-controls", node("span", {}), ...guesses.map(([, each]) => each));
  const tabs = [0, 1].map(() => node("span"));
  const shown = figure.chooser("shown", "which of the two is shown below", ["the plain one", "the other one"], {
    face: (i) => tabs[i], kind: "vb-choice", part: (shown) => looks({ shown }) });
  const which = div(null, label("Shown below"), shown);
  const slider = figure.slider("back", "Back in time", { max: 1,
    at: () => {
      const last = Math.max((looked()?.kept.length ?? 1) - 1, 0);
      set(range, { max: Math.max(last, 1) }); // first, since a place beyond it is not taken
      return state.back < 0 ? last : Math.min(state.back, last);
    },
    tell: () => then(looked()) ? `after ${counted(then(looked()).images)} images` : "not begun",
    part: (i) => looks({ back: i >= looked()?.kept.length - 1 ? -1 : i }) });
  const [, range] = slider.children;
  const pad = drawingPad([side, side], {
    ink: () => ({ strokes: state.strokes, pixels: drawn() ? null : shownInk().map((v) => v * 255 / levels) }),
    erasing: () => false,
    changed: ({ strokes }) => change(looks({ strokes })),
  });
  const wipe = figure.button("clear", "Clear the pad", () => change(looks({ strokes: [] })));
  const examples = figure.chooser("digit", "a held-out digit", classes.map((name) => `a ${name}`), {
    face: (i) => {
      const sheet = canvas();
      thumb(sheet, data.examples[i], data);
      return sheet;
    },
    at: () => drawn() ? -1 : state.digit, part: (digit) => looks({ digit, strokes: [] }) });
  const file = node("input", { type: "file", accept: ".safetensors", hidden: true, onchange: () => {
    if (file.files[0]) take(file.files[0]);
    file.value = "";
  } });
  const filed = (kind, words, onclick) => node("button", { type: "button", class: kind, onclick }, words);
  const kept = div("vb-controls", filed("vb-save", "Keep this model as a file", save),
    filed("vb-take", "Train on from a file", () => file.click()), file);

  // --- what is drawn ------------------------------------------------------------------------------------------------
  const chart = curves(data.steps * BATCH), status = note(" "), wrong = wrongOf(data);
  const bars = classBars(classes), inside = insideOf(side, data.ramp);

  function draw() {
    const { phase, runs, held } = training, run = looked(), now = then(run);
    const asks = state.change !== "none" && phase === "fresh"; // for a guess
    root.dataset.phase = phase;
    button.textContent = PRESS[phase];
    button.hidden = asks;
    guess.hidden = !asks;
    for (const [key, each] of guesses) each.hidden = !guessesOf(state.change).includes(key);
    if (asks) guess.firstChild.textContent = `Your guess starts both models. In the end ${called(state.change)} will read`;
    choice.hidden = Boolean(data.change);
    rate.hidden = !CHANGES[state.change]?.rate;
    which.hidden = runs.length < 2;
    runs.forEach(({ kind }, i) => (tabs[i].textContent = named(kind)));
    slider.hidden = !(run?.kept.length > 1);
    chart.show(runs, runs.map(({ kind }) => named(kind)), Math.min(state.shown, runs.length - 1), now);
    status.textContent = !now ? " " : `${counted(now.images)} images in ${now.seconds.toFixed(1)} s` +
      `${now.loss === null ? "" : `, loss ${now.loss.toFixed(2)}`}, ${percent(now.accuracy)} of ${held.labels.length} held-out digits right`;
    wrong.show(held, now);
    inside.show(run, shownInk().map((ink) => ink * 255 / levels));
    pad.show();
    wipe.hidden = !drawn();
    const chances = run?.seen?.logits.every(Number.isFinite) ? softmax([...run.seen.logits]) : Array(classes.length).fill(1 / classes.length);
    bars.show(chances);
    kept.firstChild.hidden = !now;
    return { says: milestones(training, data, state, state.back >= 0 && now),
      reached: data.draws && now?.accuracy >= 0.9 && drawn() && `the model that is shown reads nine of ten digits, and reads your drawing as ${classes[argmax(chances)]}.`,
      told: { runs }, named: { size: state.size, change: state.change, seed: state.seed, rate: state.rate, phase, back: state.back,
        shown: state.shown, digit: state.digit, ink: state.strokes.length } };
  }

  const made = figure.stage(draw,
    div("vb-controls", button, over, size, choice, seed), rate, guess,
    chart.element, status, slider, kept, which, ...wrong.elements,
    label("Take a held-out digit, or draw one for it"), examples,
    div("vb-reader",
      div("vb-wide", label("Draw here"), pad.element, wipe),
      inside.looks,
      labelled("What it reads", ...bars.elements)),
    inside.learned);
  chart.element.after(made.querySelector(".vb-readout")); // in sight of the button
}
