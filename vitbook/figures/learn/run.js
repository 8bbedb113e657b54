export const BATCH = 32;
// What differs in a second model: its name, how its run is told, what that is to the trainer, and the reason to look for.
export const CHANGES = {
  positions: ["No positions", "without positions", { positions: false },
    "Without places a digit is a bag of patches, and several digits have the same bag."],
  shuffle: ["Patches in one shuffled order", "with its patches shuffled", { shuffle: true },
    "Places are learned, so any order is as good as another if it is always the same."],
  patch1: ["Patches of 1 × 1 pixel", "with patches of 1 × 1 pixel", { patch: 1 },
    "A pixel alone says little: what belongs together must be found among 64 tokens."],
  patch4: ["Patches of 4 × 4 pixels", "with patches of 4 × 4 pixels", { patch: 4 },
    "The first layer sees a quarter of the digit at once, and attention has four tokens to mix."],
  patch8: ["One patch, the whole digit", "with one patch", { patch: 8 },
    "One token holds the whole digit, so attention has nothing to mix."],
  post: ["Norms behind the branches (Post-LN)", "as Post-LN", { post: true },
    "Where a norm stands decides how gradients reach the lower blocks; here there are few."],
  warmup: ["No warm-up", "without warm-up", { warmup: 0 },
    "The first steps rest on little evidence; warm-up makes them small."],
  fast: ["Ten times the learning rate", "at ten times the rate", { times: 10 },
    "A step that is too large jumps over what it aims at."],
  slow: ["A tenth of the learning rate", "at a tenth of the rate", { times: 0.1 },
    "It goes the same way in small steps, and the images may run out before it arrives."],
  few10: ["10 digits to learn from", "with 10 digits", { few: 10 },
    "Ten digits can be known by heart: see the loss, and what that is worth on others."],
  few100: ["100 digits to learn from", "with 100 digits", { few: 100 },
    "A hundred digits can be known by heart: see the loss, and what that is worth on others."],
  labels: ["Shuffled labels", "with shuffled labels", { shuffledLabels: true },
    "There is nothing to understand in shuffled labels: they can only be known by heart."],
};

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
 * A model that learns in a worker of its own. `kind` says what differs, `given` are values or a state to begin with;
 * `changed(kind, message)` is called when it has told something.
 */
export function runOf({ side, levels, classes, sizes, steps }, { worker: text, wasm, train, held }, { kind, size, seed }, given, changed) {
  const { times = 1, few, ...other } = kind === "none" ? {} : CHANGES[kind][2], { rate, ...body } = sizes[size];
  const settings = { batch: BATCH, patch: 2, side, classes: classes.length, positions: true, post: false, decay: 0.05,
    smoothing: 0, vary: true, every: 50, steps, seed, rate: rate * times, ...body, ...other };
  address ??= URL.createObjectURL(new Blob([`${text}\ntrainer(self);`], { type: "text/javascript" }));
  const worker = new Worker(address), number = ++count, waiting = {};
  const run = { kind, size, seed, settings, told: [], kept: [], seen: null, ended: "" };
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
  const pixels = side * side, rows = few && sample(train.labels, classes.length, few);
  const taken = !few ? train : { labels: Int32Array.from(rows, (row) => train.labels[row]),
    ink: Uint8Array.from(rows.flatMap((row) => [...train.ink.subarray(row * pixels, (row + 1) * pixels)])) };
  run.post("start", { number, settings: { ...settings, wasm }, ...given,
    data: { images: numbersOf(taken.ink, levels), labels: taken.labels },
    held: { images: numbersOf(held.ink, levels), labels: held.labels } });
  return run;
}
