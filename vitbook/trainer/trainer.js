import { layout, sizeOf } from "./layout.js";

/**
 * What the worker of `learn` runs: it holds a Vision Transformer, trains it a few milliseconds at a time,
 * and answers what is asked of it. The page hands its text, after that of the layout, to the worker.
 *
 * A message is `{kind, ...}`; `start` builds a model and trains it, `pause`, `go`, `look`, `weights` are asked of it.
 * @param {{postMessage: (message: object) => void, onmessage: ?Function}} scope
 */
export function trainer(scope) {
  const SLICE = 20; // ms of training between two looks at the post
  const MOST_KEPT = 60; // states of a run, to go back to
  let run = null, going = false, again = null;

  /** Uniform numbers from 0 up to 1, the same for the same seed (mulberry32), or from a state on. */
  function random(seed, state = Math.imul(seed + 1, 0x9e3779b9) >>> 0) {
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
    const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    const shuffled = (count) => {
      const order = Int32Array.from({ length: count }, (_, i) => i);
      for (let i = count - 1; i > 0; i--) {
        const j = Math.floor(uniform() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
      return order;
    };
    return { uniform, normal, shuffled, now: () => state };
  }

  /** First weights, as the library draws them: not the same numbers, the same laws. */
  function first(shapes, seed) {
    const { normal } = random(seed), values = [];
    const within = () => {
      for (;;) {
        const z = normal();
        if (Math.abs(z) <= 2) return z;
      }
    };
    for (const [name, shape] of shapes) {
      const count = sizeOf(shape), inputs = shape.at(-1) ** 2;
      const draw = /norm\d?\.weight$/.test(name) ? () => 1 : /bias$|^prefix$/.test(name) ? () => 0
        : name === "tokenizer.projection.weight" ? () => normal() / Math.sqrt(inputs)
          : name === "position.table" ? () => 0.02 * normal() : () => 0.02 * within();
      for (let i = 0; i < count; i++) values.push(draw());
    }
    return Float32Array.from(values);
  }

  /** A model in a heap of its own. */
  function build(settings) {
    const { wasm, batch, width, depth, heads, hidden, patch, side, classes, positions, post } = settings;
    if (width % 4) throw new Error(`a width of ${width} came, expected a multiple of 4`);
    const made = new WebAssembly.Instance(new WebAssembly.Module(wasm), { env: { log: Math.log, exp: Math.exp } });
    const model = made.exports, memory = model.memory;
    const count = model.create(batch, width, depth, heads, hidden, patch, side, classes, positions ? 1 : 0, post ? 1 : 0);
    if (!count) throw new Error("there is not enough memory for this model");
    const pixels = side * side, tokens = (side / patch) ** 2 + 1;
    // Behind the heap: a batch of images, its labels, the order of the patches.
    const images = memory.grow(Math.ceil(4 * (batch * (pixels + 1) + tokens) / 65536)) * 65536;
    const labels = images + 4 * batch * pixels, order = labels + 4 * batch;
    const numbers = (at, length) => new Float32Array(memory.buffer, at, length);
    return {
      count, tokens, parameters: () => numbers(model.parameters(), count),
      gradients: () => numbers(model.gradients(), count),
      moments: () => [numbers(model.moments(), count), numbers(model.squares(), count)],
      arrange: (places) => new Int32Array(memory.buffer, order, tokens - 1).set(places),
      /** Logits of images, each a row of numbers from -1 to 1. */
      forward(shown, arranged) {
        numbers(images, batch * pixels).set(shown);
        return numbers(model.forward(images, arranged ? order : 0, shown.length / pixels), shown.length / pixels * classes);
      },
      /** The loss; `twice` takes the softmax of the logits for logits, a fault. */
      backward(answers, smoothing, twice = false) {
        new Int32Array(memory.buffer, labels, batch).set(answers);
        return model.backward(labels, smoothing, twice ? 1 : 0);
      },
      update: model.update,
      /** Weights of an image of the last forward, in a layer: (heads, tokens), of the class token. */
      looks(layer, image) {
        // In the last layer only the class token asks.
        const padded = (tokens + 3) & ~3, at = model.weights(layer), asking = layer === depth - 1 ? 1 : tokens;
        return Array.from({ length: heads }, (_, head) =>
          numbers(at + 4 * (image * heads + head) * asking * padded, tokens).slice());
      },
    };
  }

  const rows = (table, width, chosen) => {
    const out = new Float32Array(chosen.length * width);
    chosen.forEach((row, i) => out.set(table.subarray(row * width, (row + 1) * width), i * width));
    return out;
  };

  /** Images turned, scaled and moved a little, each in its own way: black outside, linear between pixels. */
  function varied(images, side, { uniform }) {
    const out = new Float32Array(images.length), middle = (side - 1) / 2, within = (most) => most * (2 * uniform() - 1);
    for (let from = 0; from < images.length; from += side * side) {
      const angle = within(Math.PI / 18), zoom = 1 + within(0.1), [down, right] = [within(0.5), within(0.5)];
      const [cos, sin] = [Math.cos(angle) / zoom, Math.sin(angle) / zoom];
      for (let i = 0; i < side * side; i++) {
        const r = Math.floor(i / side) - middle - down, c = i % side - middle - right;
        const y = cos * r - sin * c + middle, x = sin * r + cos * c + middle;
        const top = Math.floor(y), left = Math.floor(x);
        let ink = 0;
        for (const [row, share] of [[top, top + 1 - y], [top + 1, y - top]]) {
          for (const [column, part] of [[left, left + 1 - x], [left + 1, x - left]]) {
            if (row < 0 || column < 0 || row >= side || column >= side) continue;
            ink += share * part * (images[from + row * side + column] + 1);
          }
        }
        out[from + i] = ink - 1;
      }
    }
    return out;
  }

  /** Answers to the held-out images, by the weights that are in the heap. */
  function read({ model, settings: { batch, side, classes, shuffle }, held }) {
    const pixels = side * side, answers = new Uint8Array(held.labels.length);
    let right = 0;
    for (let from = 0; from < answers.length; from += batch) {
      const some = Math.min(batch, answers.length - from);
      const logits = model.forward(held.images.subarray(from * pixels, (from + some) * pixels), shuffle);
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
    const told = { step, images: step * settings.batch, seconds: run.seconds, ...read(run),
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
    const { model, settings, data } = run, { batch, side, decay, smoothing, twice, shuffle, vary } = settings;
    const pixels = side * side, shown = [];
    while (shown.length < batch) {
      if (run.next >= run.order.length) [run.order, run.next] = [run.random.shuffled(data.labels.length), 0];
      shown.push(run.order[run.next++]);
    }
    const images = rows(data.images, pixels, shown);
    model.forward(vary ? varied(images, side, run.random) : images, shuffle);
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
      const shapes = layout(settings), model = build(settings), chance = random(settings.seed + 1);
      model.parameters().set(values ?? first(shapes, settings.seed));
      const places = settings.shuffle ? chance.shuffled(model.tokens - 1) : null;
      if (places) model.arrange(places);
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
        Object.assign(run, { order, next, step, every, seconds, random: random(0, state.random) });
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
     * filters of its patches and its table of positions.
     */
    look({ image, step }) {
      const { model, settings } = run, now = model.parameters().slice();
      const then = run.kept.find((each) => each.step === step);
      if (then) model.parameters().set(then.values);
      const logits = model.forward(image, settings.shuffle).slice();
      const maps = Array.from({ length: settings.depth }, (_, layer) => model.looks(layer, 0));
      const parts = Object.fromEntries(["tokenizer.projection.weight", "position.table"].map((name) => [name, part(name)]));
      model.parameters().set(now);
      scope.postMessage({ kind: "look", run: run.number, step: then ? step : run.step, logits, maps, places: run.places,
        filters: parts["tokenizer.projection.weight"], table: parts["position.table"] });
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
  return { build, first, random, rateAt };
}
