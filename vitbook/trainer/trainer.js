import { chanceOf, firstOf, varied } from "./chance.js";
import { layout, sizeOf } from "./layout.js";
import { arranged, modelOf } from "./model.js";

/**
 * What the worker of `learn` runs: it holds a Vision Transformer or a ResNet, trains it a few milliseconds at a time,
 * and answers what is asked of it. The page hands its text, after those of what it imports, to the worker.
 *
 * A message is `{kind, ...}`; `start` builds a model and trains it, `pause`, `go`, `look`, `weights` are asked of it.
 * @param {{postMessage: (message: object) => void, onmessage: ?Function}} scope
 */
export function trainer(scope) {
  const SLICE = 20; // ms of training between two looks at the post
  const MOST_KEPT = 60; // states of a run, to go back to
  let run = null, going = false, again = null;

  const rows = (table, width, chosen) => {
    const out = new Float32Array(chosen.length * width);
    chosen.forEach((row, i) => out.set(table.subarray(row * width, (row + 1) * width), i * width));
    return out;
  };

  /** Images as the model sees them: with patches in another order, if the run says so. */
  const seen = (images) => (run.places ? arranged(images, run.settings, run.places) : images);

  /** Answers to the held-out images, by the weights that are in the heap. */
  function read() {
    const { model, settings: { batch, side, classes }, held } = run;
    const pixels = side * side, answers = new Uint8Array(held.labels.length);
    let right = 0;
    for (let from = 0; from < answers.length; from += batch) {
      const some = Math.min(batch, answers.length - from);
      const logits = model.forward(seen(held.images.subarray(from * pixels, (from + some) * pixels)));
      for (let i = 0; i < some; i++) {
        const row = logits.subarray(i * classes, (i + 1) * classes), best = row.indexOf(Math.max(...row));
        answers[from + i] = best;
        right += best === held.labels[from + i];
      }
    }
    return { answers, accuracy: right / answers.length };
  }

  /** Keep the state of now; of too many every second one goes. */
  function keep(told) {
    const { model, kept } = run;
    kept.push({ ...told, values: model.parameters().slice() });
    if (kept.length <= MOST_KEPT) return;
    run.kept = kept.filter((_, i) => i % 2 === 0 || i === kept.length - 1);
    run.every *= 2;
  }

  function tell() {
    const { step, settings, losses, kept } = run;
    const told = { step, images: step * settings.batch, seconds: run.seconds, ...read(),
      loss: losses.length ? losses.reduce((a, b) => a + b, 0) / losses.length : null };
    run.losses = [];
    keep(told);
    scope.postMessage({ kind: "told", run: run.number, every: run.every, kept: run.kept.map((each) => each.step), ...told });
  }

  function rateAt(step, { rate, warmup, steps }) {
    const rising = warmup ? Math.min(1, (step + 1) / warmup) : 1;
    return rate * rising * (steps ? Math.max(0.02, 0.5 + 0.5 * Math.cos(Math.PI * Math.min(1, step / steps))) : 1);
  }

  function oneStep() {
    const { model, settings, data } = run, { batch, side, decay, smoothing, twice, vary } = settings;
    const pixels = side * side, shown = [];
    while (shown.length < batch) {
      if (run.next >= run.order.length) [run.order, run.next] = [run.random.shuffled(data.labels.length), 0];
      shown.push(run.order[run.next++]);
    }
    const images = rows(data.images, pixels, shown);
    model.forward(seen(vary ? varied(images, side, run.random) : images), true);
    const loss = model.backward(shown.map((i) => data.labels[i]), smoothing, twice);
    if (!Number.isFinite(loss)) return false;
    model.update(run.step + 1, rateAt(run.step, settings), decay);
    run.step++;
    run.losses.push(loss);
    return true;
  }

  function slice() {
    again = null;
    if (!going) return;
    const from = performance.now();
    do {
      if (!oneStep()) {
        going = false;
        run.model.parameters().set(run.kept.at(-1).values); // no further than what can be shown
        return scope.postMessage({ kind: "diverged", run: run.number, step: run.step, back: run.kept.at(-1).step });
      }
      if (run.step % run.every === 0 || run.step === run.settings.steps) {
        run.seconds += (performance.now() - run.since) / 1000;
        tell();
        run.since = performance.now();
      }
      if (run.step === run.settings.steps) {
        going = false;
        return scope.postMessage({ kind: "done", run: run.number, step: run.step });
      }
    } while (performance.now() - from < SLICE);
    again = setTimeout(slice, 0);
  }

  /** One of the parameters, or nothing where the model has none of this name. */
  function part(name) {
    let from = 0;
    for (const [other, shape] of layout(run.settings)) {
      const count = sizeOf(shape);
      if (other === name) return run.model.parameters().slice(from, from + count);
      from += count;
    }
    return null;
  }

  const answers = {
    /**
     * `settings` of the model and its training; `data` and `held` as {images, labels}; `values` to begin with,
     * or a `state` to go on from, as `state` gave it.
     */
    start({ number, settings, data, held, values, state, paused }) {
      going = false;
      clearTimeout(again);
      const shapes = layout(settings), model = modelOf(settings), chance = chanceOf(settings.seed + 1);
      model.parameters().set(values ?? firstOf(shapes, settings.seed));
      const places = settings.shuffle ? chance.shuffled((settings.side / settings.patch) ** 2) : null;
      const labels = settings.shuffledLabels ? rows(data.labels, 1, chance.shuffled(data.labels.length)) : data.labels;
      run = { number, settings, model, data: { images: data.images, labels }, held, places, random: chance, order: [], next: 0, step: 0,
        losses: [], kept: [], every: settings.every, seconds: 0, since: performance.now() };
      if (state) {
        const { values: then, moments, order, next, step, every, seconds } = state;
        if (moments.length !== 2 || [then, ...moments].some((each) => each.length !== model.count) || !then.every(Number.isFinite) ||
          order.some((i) => !(i >= 0 && i < labels.length)) || !(step >= 0) || !(every > 0)) {
          throw new Error("what was kept is of another model");
        }
        model.parameters().set(then);
        model.moments().forEach((each, i) => each.set(moments[i]));
        Object.assign(run, { order, next, step, every, seconds, random: chanceOf(0, state.random) });
      }
      scope.postMessage({ kind: "started", run: number, parameters: model.count, shapes });
      tell();
      if (state?.losses) run.losses = [...state.losses];
      if (!paused) answers.go();
    },
    pause() {
      if (going) run.seconds += (performance.now() - run.since) / 1000;
      going = false;
      clearTimeout(again);
      scope.postMessage({ kind: "paused", run: run.number, step: run.step });
    },
    go() {
      if (going || (run.settings.steps && run.step >= run.settings.steps)) return;
      going = true;
      run.since = performance.now();
      slice();
    },
    /**
     * Where the class token looks in an image (numbers from -1 to 1), and its logits, at a kept step or now; with the
     * filters of its first layer and its table of positions, where it has these.
     */
    look({ image, step }) {
      const { model } = run, now = model.parameters().slice();
      const then = run.kept.find((each) => each.step === step);
      if (then) model.parameters().set(then.values);
      const logits = model.forward(seen(image)).slice(), maps = model.looks(0);
      const filters = part("tokenizer.projection.weight") ?? part("stem.weight"), table = part("position.table");
      model.parameters().set(now);
      scope.postMessage({ kind: "look", run: run.number, step: then ? step : run.step, logits, maps, filters, table, places: run.places });
    },
    /** All that it takes to go on in another page as if nothing had been. */
    state() {
      const { settings: { wasm, ...settings }, model, order, next, step, every, losses, number } = run;
      const seconds = run.seconds + (going ? (performance.now() - run.since) / 1000 : 0);
      scope.postMessage({ kind: "state", run: number, state: { settings, values: model.parameters().slice(),
        moments: model.moments().map((each) => each.slice()), order, next, step, every, seconds, losses: [...losses], random: run.random.now() } });
    },
    weights({ step }) {
      const then = run.kept.find((each) => each.step === step);
      scope.postMessage({ kind: "weights", run: run.number, step: then ? step : run.step, places: run.places,
        shapes: layout(run.settings), values: then ? then.values.slice() : run.model.parameters().slice() });
    },
  };
  scope.onmessage = ({ data: { kind, ...asked } }) => {
    try {
      answers[kind](asked);
    } catch (error) {
      going = false;
      scope.postMessage({ kind: "failed", reason: error.message });
    }
  };
}
