import { shelf } from "../parts/pieces.js";
import { isRun, shelved } from "./keeping.js";
import { called, modelOf, runOf, unpacked } from "./run.js";

// The shortest module with an instruction of SIMD.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
const KEEP_EVERY = 4000; // ms
const LOW = 0.15; // of a battery

/**
 * The runs of a figure, one or two side by side: begun, paused, kept in the browser, opened again. `state` is what the
 * reader chose, `change` draws anew, `heard(run)` is called when a run has told something.
 */
export function trainingOf(root, data, { state, change }, heard) {
  const pixels = data.side ** 2, many = data.counts.map((counts) => counts.reduce((a, b) => a + b, 0));
  const store = shelved(`${globalThis.location?.pathname}#${data.change ?? "learn"}`);
  const here = { phase: "fresh", runs: [], trouble: "", held: null };
  const working = () => here.runs.filter((each) => !each.ended);
  const stop = () => here.runs.forEach((each) => each.stop());

  // --- what runs need, which comes when the first one begins --------------------------------------------------------
  let waiting = null, lost = "", opened = null;
  const ask = shelf(root, arrived, (reason) => {
    lost = `The training could not begin (${reason}): load the page again. `;
    fail(lost);
  });
  function arrived() {
    if (!waiting) return;
    const { models, then } = waiting, simd = WebAssembly.validate(Uint8Array.from(SIMD));
    const wasm = Object.fromEntries(models.map((model) =>
      [model, ask(data.pieces[simd ? model : `${model}-plain`], (raw) => raw)]));
    const worker = ask(data.pieces.worker, (raw) => new TextDecoder().decode(raw)), digits = ask(data.pieces.digits, (raw) => raw);
    if (!worker || !digits || models.some((model) => !wasm[model])) return;
    const [train, held] = opened ? [opened.train, opened.held]
      : [digits.subarray(0, many[0] * pixels), digits.subarray(many[0] * pixels)].map((raw, i) => unpacked(raw, data.counts[i], pixels));
    opened = { wasm, worker, train, held };
    here.held = held;
    waiting = null;
    try {
      then();
    } catch (error) {
      fail(`The training could not begin (${error.message}). `);
    }
  }
  function fail(words) {
    stop();
    Object.assign(here, { runs: [], phase: "failed", trouble: words });
    change({});
  }
  /** Do this once all is there that these models need. */
  function ready(models, then) {
    if (typeof Worker === "undefined" || typeof WebAssembly === "undefined") {
      return fail("This browser cannot train a model: that needs workers and WebAssembly. The other figures work without. ");
    }
    if (lost) return fail(lost);
    waiting = { models: [...new Set(models)], then };
    arrived();
  }

  // --- runs ---------------------------------------------------------------------------------------------------------
  function run(kind, given) {
    const { size, seed, rate } = state, restored = Boolean(given.state);
    const made = runOf(data, opened, { kind, size, seed, rate }, given, (what, { step, back, reason }) => {
      if (!here.runs.includes(made)) return;
      if (what === "told") heard(made);
      if (what === "diverged") here.trouble += `At step ${step} the loss of ${here.runs.length < 2 ? "the model" : called(kind)} ` +
        `is no number any more: its learning rate is too high. The last step that was kept is shown, step ${back}. `;
      if (what === "failed") here.trouble = `The training could not go on (${reason}). Press Reset, or take the smaller model. `;
      if (what === "failed" && restored && !made.kept.length) return here.clear(); // it was of another model
      if (["training", "paused"].includes(here.phase) && !working().length) {
        here.phase = "done";
        keep();
      }
      change({});
    });
    return made;
  }

  /** Train models of these kinds from the beginning, or from what is given; the figure's state becomes `part`. */
  here.begin = (kinds, given = {}, part = {}, words = "") => {
    const others = document.querySelectorAll('[data-figure="learn"][data-phase="training"]');
    if ([...others].some((other) => other !== root) && !window.confirm?.(
      "Another model is learning on this page, and two share the machine. Start this one too?")) return;
    stop();
    Object.assign(here, { runs: [], trouble: words, phase: "training" });
    change({ back: -1, shown: kinds.length - 1, ...part });
    ready(kinds.map(modelOf), () => {
      here.runs = kinds.map((kind) => run(kind, given));
      if (here.phase === "paused") here.runs.forEach((each) => each.post("pause")); // while it was loaded
    });
  };
  here.pause = (phase = "paused") => {
    here.phase = phase;
    working().forEach((each) => each.post("pause"));
    keep();
    change({});
  };
  here.go = (back = -1) => {
    Object.assign(here, { phase: "training", trouble: "" });
    working().forEach((each) => each.post("go"));
    change({ back });
  };
  /** Other settings were chosen: the next run has them, and what has learned so far stays in sight. */
  here.prepare = () => {
    waiting = null; // nor is what was kept opened any more
    if (here.phase === "fresh") return;
    here.trouble = "";
    here.pause("fresh");
  };
  /** Nothing runs any more, and nothing is kept. */
  here.clear = (part = {}) => {
    stop();
    waiting = null;
    Object.assign(here, { runs: [], phase: "fresh", trouble: "" });
    store.put(null);
    change({ back: -1, guess: null, shown: 0, ...part });
  };
  // A page that nobody sees does not compute, nor does one on the last of a battery.
  let hidden = false;
  document.addEventListener?.("visibilitychange", () => {
    if (document.hidden && here.phase === "training") {
      hidden = true;
      here.pause();
    } else if (!document.hidden && hidden) {
      hidden = false;
      if (here.phase === "paused") here.go(state.back);
    }
  });
  globalThis.navigator?.getBattery?.().then((battery) => battery.addEventListener("levelchange", () => {
    if (here.phase !== "training" || battery.charging || battery.level > LOW) return;
    here.trouble = "The battery is low, so the training waits. ";
    here.pause();
  }), () => {});

  // --- what the browser keeps, so that a closed tab loses nothing ----------------------------------------------------
  let keeping = Promise.resolve();
  const keep = () => (keeping = keeping.then(keepNow));
  async function keepNow() {
    if (!here.runs.length || here.runs.some((each) => each.ended === "failed")) return;
    const asked = here.runs, states = await Promise.all(asked.map((each) => each.ask("state")));
    if (asked !== here.runs || states.some((each) => !each)) return; // they were stopped meanwhile
    const { size, seed, rate } = asked[0], { kind: last } = asked.at(-1);
    const runs = asked.map(({ kind, told, ended }, i) => ({ kind, told, ended, state: states[i].state }));
    if (await store.put({ size, seed, rate, change: last, guess: state.guess, runs }) || here.trouble) return;
    here.trouble = "This browser keeps nothing for this page, so a closed tab loses the run. ";
    change({});
  }
  if (globalThis.setInterval && root.isConnected) setInterval(() => {
    if (here.phase !== "training") return;
    if (root.isConnected) keep();
    else here.pause(); // its output was cleared
  }, KEEP_EVERY);
  store.get().then((kept) => {
    if (here.phase !== "fresh" || !isRun(kept, data)) return;
    ready(kept.runs.map(({ kind }) => modelOf(kind)), () => {
      const { size, seed, rate, guess } = kept;
      Object.assign(state, { size, seed, rate, guess, change: data.change ?? kept.change });
      here.runs = kept.runs.map(({ kind, told, ended, state: then }) => {
        const mine = run(kind, { state: then, paused: true });
        mine.told.push(...told.filter(({ step }) => step <= then.step));
        mine.ended = ended;
        return mine;
      });
      here.phase = working().length ? "paused" : "done";
      here.trouble = `Your run was kept when the page was closed${here.phase === "done" ? "" : ", and goes on from its last step"}. `;
      change({ shown: here.runs.length - 1 });
    });
  });
  return here;
}
