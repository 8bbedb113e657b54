export const BATCH = 32;

/**
 * What differs in a second model: what the menu calls it, what is said of its run, what it is to the trainer, and the
 * reason to look for. `rate`: the learning rate of both can be dragged. `guesses`: what can be guessed of it, if not
 * fewer, as many, more.
 */
export const CHANGES = {
  positions: { menu: "No positions", run: "without positions", settings: { positions: false },
    why: "Without positions a digit is a bag of patches, and different digits can have nearly the same bag." },
  shuffle: { menu: "Patches in one shuffled order", run: "with its patches shuffled", settings: { shuffle: true }, guesses: ["chance", "fewer", "same"],
    why: "Positions are learned, so any order is as good as another if it is always the same." },
  convolution: { menu: "A ResNet: convolutions, no attention", run: "a ResNet", settings: { kind: "resnet" },
    why: "A convolution is built on what attention has to learn: pixels that are near belong together, and a stroke may lie anywhere." },
  patch1: { menu: "Patches of 1 × 1 pixel", run: "with patches of 1 × 1 pixel", settings: { patch: 1 },
    why: "A pixel alone says little. Attention must find which of the 64 tokens belong together." },
  patch4: { menu: "Patches of 4 × 4 pixels", run: "with patches of 4 × 4 pixels", settings: { patch: 4 },
    why: "The first layer sees a quarter of the digit at once, and attention has four tokens to mix." },
  patch8: { menu: "One patch, the whole digit", run: "with one patch", settings: { patch: 8 },
    why: "One token holds the whole digit, so attention has nothing to mix." },
  post: { menu: "Post-LN: norms behind the branches", run: "with Post-LN", settings: { post: true }, rate: true,
    why: "At the usual rate the two differ little here. At a high rate Post-LN is the first to fall behind." },
  warmup: { menu: "No warm-up", run: "without warm-up", settings: { warmup: 0 }, rate: true,
    why: "The first steps rest on few images, and a warm-up makes these steps small." },
  fast: { menu: "Ten times the learning rate", run: "at ten times the rate", settings: { times: 10 },
    why: "A step that is too large jumps over what it aims at." },
  slow: { menu: "A tenth of the learning rate", run: "at a tenth of the rate", settings: { times: 0.1 },
    why: "Smaller steps go less far: the training may end before the model has learned what it can." },
  twice: { menu: "Softmax twice, a fault", run: "with softmax twice", settings: { twice: true },
    why: "The loss takes numbers from 0 to 1 for logits: it cannot fall below 1.46, however sure the model is." },
  few10: { menu: "10 digits to learn from", run: "with 10 digits", settings: { few: 10 },
    why: "Ten digits can be learned by heart. Compare the loss with how many held-out digits are read." },
  few100: { menu: "100 digits to learn from", run: "with 100 digits", settings: { few: 100 },
    why: "A hundred digits can be learned by heart. Compare the loss with how many held-out digits are read." },
  labels: { menu: "Shuffled labels", run: "with shuffled labels", settings: { shuffledLabels: true },
    why: "There is no rule in shuffled labels. They can only be learned by heart: the loss tells how far that went." },
};

/** What a run beside another is called. */
export const named = (kind) => CHANGES[kind]?.run ?? "plain";
export const called = (kind) => kind === "none" ? "the plain model" : `the second model, ${named(kind)},`;

/** Which of the trainer's models a run is of. */
export const modelOf = (kind) => CHANGES[kind]?.settings.kind ?? "vit";

/** What the trainer builds of a size, where nothing differs. */
export const plainOf = ({ side, classes, sizes }, size) =>
  ({ patch: 2, side, classes: classes.length, positions: true, post: false, ...sizes[size] });

/** Digits from their piece: ink from 0 to the levels, a row each, and labels; of each class so many. */
export function unpacked(raw, counts, pixels) {
  const labels = Int32Array.from(counts.flatMap((count, digit) => Array(count).fill(digit))), many = labels.length;
  return { labels, ink: Uint8Array.from({ length: many * pixels }, (_, i) => raw[i % pixels * many + Math.floor(i / pixels)]) };
}

/** The rows of a few digits, as many of each class. */
export function sample(labels, classes, count) {
  return Array.from({ length: classes }, (_, digit) =>
    Array.from({ length: count / classes }, (_, i) => labels.indexOf(digit) + i)).flat();
}

/** Ink as the numbers from -1 to 1 that the library's models take. */
export const numbersOf = (ink, levels) => Float32Array.from(ink, (level) => Math.round(level * 255 / levels) / 127.5 - 1);

let address = null; // of the worker's text
let count = 0; // of the runs of this page

/**
 * A model that learns in a worker of its own. `kind` says what differs, `rate` by which power of two its learning rate
 * is larger, `given` are values or a state to begin with; `changed(kind, message)` is called when it has told something.
 */
export function runOf(data, { worker: text, wasm, train, held }, { kind, size, seed, rate }, given, changed) {
  const { times = 1, few, ...other } = CHANGES[kind]?.settings ?? {}, { rate: usual, ...plain } = plainOf(data, size);
  const settings = { ...plain, batch: BATCH, decay: 0.05, smoothing: 0, vary: true, every: 50, steps: data.steps, seed,
    rate: usual * times * 2 ** rate, ...other };
  address ??= URL.createObjectURL(new Blob([`${text}\ntrainer(self);`], { type: "text/javascript" }));
  const worker = new Worker(address), number = ++count, waiting = {};
  const run = { kind, size, seed, rate, settings, told: [], kept: [], seen: null, ended: "" };
  const unanswered = () => Object.values(waiting).forEach((resolve) => resolve(null));
  const hear = {
    told: (message) => {
      const last = run.told.at(-1); // the same again, of a run that goes on from where it was kept
      if (last?.step === message.step) run.told.splice(-1, 1, { ...message, loss: last.loss, seconds: last.seconds });
      else run.told.push(message);
      run.kept = message.kept;
    },
    look: (message) => (run.seen = message),
    done: () => (run.ended = "done"),
    diverged: () => (run.ended = "diverged"),
    failed: () => {
      run.ended = "failed";
      unanswered();
    },
  };
  worker.onmessage = ({ data: message }) => {
    if (message.run !== undefined && message.run !== number) return;
    hear[message.kind]?.(message);
    waiting[message.kind]?.(message);
    if (message.kind in hear) changed(message.kind, message);
  };
  worker.onerror = ({ message }) => worker.onmessage({ data: { kind: "failed", reason: message ?? "its worker did not start" } });
  run.post = (what, more = {}) => worker.postMessage({ kind: what, ...more });
  run.stop = () => {
    worker.terminate();
    unanswered();
  };
  /** What the worker answers when it is asked for it; nothing when it was stopped. */
  run.ask = (what, more) => new Promise((resolve) => {
    waiting[what] = resolve;
    run.post(what, more);
  });
  const { side, levels, classes } = data, pixels = side * side, rows = few && sample(train.labels, classes.length, few);
  const taken = !few ? train : { labels: Int32Array.from(rows, (row) => train.labels[row]),
    ink: Uint8Array.from(rows.flatMap((row) => [...train.ink.subarray(row * pixels, (row + 1) * pixels)])) };
  run.post("start", { number, settings: { ...settings, wasm: wasm[modelOf(kind)] }, ...given,
    data: { images: numbersOf(taken.ink, levels), labels: taken.labels },
    held: { images: numbersOf(held.ink, levels), labels: held.labels } });
  return run;
}
