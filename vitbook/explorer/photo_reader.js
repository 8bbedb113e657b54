import { node, set } from "./page.js";
import { paint } from "./paint.js";
import { clamp, inside, inWords, place, softmax, way } from "./numbers.js";
import { canvas, div, drag, frame, image, label, labelled, photo } from "./parts.js";
import { live } from "./live.js";
import { marked, MARKS, rescaled, softened } from "./photo_brush.js";
import { middleSquare, pixelsOf } from "./photo_file.js";
import { sources } from "./photo_sources.js";
import { loader } from "./photo_loader.js";
import { colorAxes, tokenColor } from "./token_colors.js";

const DARKEST = 0.86, TOP = 5; // of the veil; classes that are told
const QUICK = 0.2; // s that a run may take to be made while a stroke still goes on

/** A veil over a photograph: the less, the brighter. */
const veil = (to, rows, columns, share) =>
  paint(to, rows, columns, (i) => [0, 0, 0, Math.round(255 * DARKEST * (1 - clamp(share(i), 0, 1)))]);

/** Red, green and blue planes on a canvas. */
const show = (to, planes, side) => paint(to, side, side, (i) =>
  [planes[i], planes[side * side + i], planes[2 * side * side + i]]);

/** The means of a square map over the patches. */
export function pooled(map, side, columns) {
  const patch = side / columns, sums = new Float32Array(columns * columns);
  map.forEach((value, i) => {
    const row = Math.floor(i / side / patch), column = Math.floor((i % side) / patch);
    sums[row * columns + column] += value / patch ** 2;
  });
  return sums;
}

/** What the page reads of the model's outputs. */
const looks = (outputs) => ({
  saliency: outputs["answer:saliency"].data,
  logits: (head) => outputs[`answer:${head}`].data,
  layers: (kind) => Object.entries(outputs).filter(([name]) => name.startsWith(`${kind}:`)).map(([, each]) => each),
});

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], sizes: number[], patch: number, depth: number, heads: number,
 *   check: number[], task: string, start: {photo: number, size: number, layer: number, head: string,
 *   patch: number}}} data  `check`: torch's saliency of the first photograph, a mean for each patch
 */
export function render(root, data) {
  const { start } = data, names = data.photos.map(([name]) => name);
  const figure = live(root, data, { ...start, tool: "ask", answers: "tiny_imagenet", round: 0 });
  const { state, change } = figure;
  const columnsOf = (size) => size / data.patch;
  let base = null, planes = null, soft = null, marks = null, trouble = "";
  let found = null, clean = null, axes = new Map(), wanted = null, busy = false;

  const model = loader(() => state.size, async (engine) => {
    await check(engine);
    request();
    return handle;
  });

  /** Compare this page with torch on the first photograph; a card that computes badly is left. */
  async function check(engine) {
    const first = new Image();
    first.src = data.photos[0][1];
    await first.decode();
    const side = data.sizes[0], given = pixelsOf(middleSquare(first, side, side), side);
    const apart = async () => {
      const { outputs } = await engine.run(given, side);
      const means = pooled(looks(outputs).saliency, side, columnsOf(side));
      return Math.max(...means.map((mean, i) => Math.abs(mean - data.check[i])));
    };
    let most = engine.kind === "webgpu" ? await apart().catch(() => Infinity) : await apart();
    if (most > 0.1 && engine.kind === "webgpu") {
      await engine.withoutGraphics(side);
      most = await apart();
    }
    model.checked(most);
  }

  /** A new photograph: no marks, nothing known of it. */
  function take(square) {
    base = square;
    prepare();
    change({ patch: Math.min(state.patch, marks.length - 1) });
    request();
  }
  function prepare(kept) {
    planes = pixelsOf(base, state.size);
    soft = null;
    marks = kept ?? new Uint8Array(columnsOf(state.size) ** 2);
    found = clean = null;
    axes = new Map();
  }
  const isMarked = (key) => /[^0]/.test(key);
  const given = () => {
    if (marks.includes(MARKS.blur)) soft ??= softened(planes, state.size, data.patch / 2);
    return marked(planes, state.size, marks, columnsOf(state.size), soft);
  };

  /** Compute what is shown; of what is asked for meanwhile only the last. */
  async function request() {
    if (!base || !model.ready()) return;
    wanted = { planes, key: marks.join(""), pixels: given(), size: state.size };
    if (busy) return;
    busy = true;
    for (let next; (next = wanted); ) {
      // What a stroke changes is told beside the photograph as it came: that one is computed first.
      if (!clean && isMarked(next.key)) next = { ...next, key: "0".repeat(marks.length), pixels: next.planes };
      else wanted = null;
      try {
        const { outputs, seconds } = await model.engine.run(next.pixels, next.size);
        if (next.planes !== planes) continue; // of another photograph
        found = { key: next.key, outputs, seconds };
        if (!isMarked(next.key)) clean = found;
        trouble = "";
      } catch (error) {
        wanted = null;
        trouble = `The model stopped (${error.message}): load the page again.`;
      }
      change({ round: state.round + 1 });
    }
    busy = false;
  }

  // The photograph, its patches, and the brush.
  const pad = canvas(), handle = node("button", {
    type: "button", class: "vb-touch", "data-control": "patch",
  });
  const frames = [];
  const framed = () => (frames.push(div("vb-photo-frame")), frames.at(-1));
  const cut = div("vb-cut");
  const surface = set(image(1, 1, pad, cut, framed(), handle), { class: "vb-image vb-photo-pad" });
  const at = ([across, down]) => {
    const columns = columnsOf(state.size);
    return [clamp(Math.floor(down * columns), 0, columns - 1), clamp(Math.floor(across * columns), 0, columns - 1)];
  };
  const number = ([row, column]) => row * columnsOf(state.size) + column;
  const mark = (cells) => {
    for (const cell of cells) marks[number(cell)] = MARKS[state.tool];
    change({ patch: number(cells.at(-1)) });
    if (!from || found?.seconds < QUICK) request();
  };
  const walk = (down, right) => {
    const [row, column] = place(state.patch, columnsOf(state.size)), last = columnsOf(state.size) - 1;
    change({ patch: number([clamp(row + down, 0, last), clamp(column + right, 0, last)]) });
  };
  drag(surface, {
    handle, walk, move: (...place) => state.tool === "ask" && base && change({ patch: number(at(place)) }),
  });
  let from = null;
  const lift = () => {
    if (from) request();
    from = null;
  };
  const under = (event) => at(inside(event, surface.getBoundingClientRect()));
  set(surface, {
    onpointerdown: (event) => {
      if (state.tool === "ask" || !base || event.button || !event.isPrimary) return;
      surface.setPointerCapture(event.pointerId);
      mark([from = under(event)]);
    },
    onpointermove: (event) => {
      const to = from && event.isPrimary && under(event);
      if (!to || `${to}` === `${from}`) return;
      mark(way(from, to).slice(1));
      from = to;
    },
    onpointerup: lift, onpointercancel: lift,
  });
  set(handle, { onclick: (event) => {
    if (!event.detail && state.tool !== "ask" && base) mark([place(state.patch, columnsOf(state.size))]);
  } });

  const tool = figure.select("tool", "What a click or a stroke on the photograph does", [
    ["ask", "A click asks: where does this patch look?"], ["blank", "Brush: blank a patch"],
    ["blur", "Brush: blur a patch"], ["none", "Brush: bring a patch back"],
  ]);
  const clear = figure.button("clear", "Bring all back", () => {
    marks.fill(0);
    handle.focus({ preventScroll: true }); // this button goes
    change({});
    request();
  });
  const size = figure.select("size", "Pixels a side that the model sees", data.sizes.map((each) =>
    [each, `${each} px: ${columnsOf(each)} × ${columnsOf(each)} patches`]), { part: resize });
  /** The same photograph with as many strokes, of other pixels. */
  function resize(value) {
    const columns = columnsOf(state.size), [row, column] = place(state.patch, columns);
    state.size = Number(value);
    const now = columnsOf(state.size), moved = (at) => Math.floor((at + .5) * now / columns);
    if (base) prepare(rescaled(marks, now));
    queueMicrotask(request);
    return { patch: moved(row) * now + moved(column) };
  }
  const chooser = figure.chooser("photo", "photograph", names, {
    kind: "vb-album", face: (i) => photo(data.photos[i][1]),
    part: (i) => (own.forget(), choose(i), { photo: i }),
  });
  async function choose(i) {
    const shown = new Image();
    shown.src = data.photos[i][1];
    await shown.decode();
    if (state.photo === i) take(middleSquare(shown, shown.naturalWidth, shown.naturalHeight));
  }
  const own = sources(root, (square) => {
    change({ photo: -1 });
    take(square);
  });

  // What the model makes of it.
  const layer = figure.slider("layer", "Layer", { min: 1, max: data.depth, tell: (value) => `${value} of ${data.depth}` });
  const head = figure.select("head", "Attention head", [["mean", "mean of the heads"],
    ...Array.from({ length: data.heads }, (_, i) => [String(i), `head ${i + 1}`])]);
  const panels = Object.fromEntries(["attends", "tokens", "now", "first"].map((name) =>
    [name, { under: canvas(), over: canvas(), words: label() }]));
  const panel = (name, smooth) => {
    const { under: below, over, words } = panels[name];
    if (smooth) over.classList.add("vb-smooth");
    return div("", words, image(1, 1, below, over, framed()));
  };
  const answers = figure.select("answers", "Classes to choose among", []);
  const bars = Array.from({ length: TOP }, () => {
    const name = node("span"), bar = node("i"), was = node("b", { class: "vb-was" }), chance = node("span");
    return { name, bar, was, chance, element: div("vb-class", name, node("span", { class: "vb-track" }, bar, was), chance) };
  });
  const fitted = node("p", { class: "vb-note" });

  function drawAnswer({ size: side, answers: chosen }) {
    const now = looks(found.outputs), was = clean && looks(clean.outputs);
    const about = model.heads()[chosen], chances = softmax(Array.from(now.logits(chosen)));
    const before = was && softmax(Array.from(was.logits(chosen)));
    const order = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]).slice(0, TOP);
    bars.forEach(({ name, bar, was: tick, chance, element }, i) => {
      const each = order[i];
      element.hidden = each === undefined;
      if (element.hidden) return;
      name.textContent = about.classes[each];
      element.classList.toggle("vb-most", i === 0);
      bar.style.width = `${100 * chances[each]}%`;
      tick.hidden = !before || found === clean;
      if (!tick.hidden) tick.style.left = `calc(${before[each]} * (100% - 3px))`;
      chance.textContent = chances[each].toFixed(2);
    });
    fitted.textContent = "One linear layer on the tokens, which this book fitted on " +
      `${about.dataset.split(",")[0]} at ${about.size} px. It is right on ${Math.round(100 * about.accuracy[0])} % of ` +
      `held-out images${side === about.size ? "" : `; here it reads ${side} px`}. It must choose one of its classes, ` +
      "even where none fits.";
    veil(panels.now.over, side, side, (i) => now.saliency[i]);
    panels.now.words.textContent = "What draws the eye, says the model";
    if (was) veil(panels.first.over, side, side, (i) => was.saliency[i]);
    panels.first.words.textContent = "The same before the brush";
    const change_ = was ? now.saliency.reduce((sum, value, i) => sum + Math.abs(value - was.saliency[i]), 0) / side ** 2 : 0;
    return { top: about.classes[order[0]], chance: chances[order[0]], moved: change_,
      first: before && about.classes[before.indexOf(Math.max(...before))] };
  }

  function drawLayer({ size: side, layer: depth, head: chosen, patch }) {
    const { layers } = looks(found.outputs), columns = columnsOf(side), count = columns ** 2;
    const map = layers("attention")[depth - 1], [, heads, queries, keys] = map.dims, prefix = keys - count;
    const each = chosen === "mean" ? Array.from({ length: heads }, (_, i) => i) : [Number(chosen)];
    const row = Float32Array.from({ length: keys }, (_, key) =>
      each.reduce((sum, h) => sum + map.data[(h * queries + prefix + patch) * keys + key], 0) / each.length);
    const weights = row.subarray(prefix), top = Math.max(...weights);
    veil(panels.attends.over, columns, columns, (i) => Math.sqrt(weights[i] / top));
    panels.attends.words.textContent = `What the framed patch attends to, layer ${depth}`;
    const tokens = layers("tokens")[depth - 1], width = tokens.dims[2], own_ = tokens.data.subarray(prefix * width);
    // The colours are those of the photograph as it came, so that only what a stroke changes moves.
    const from_ = (clean ?? found).outputs;
    if (!axes.has(depth)) axes.set(depth, colorAxes(looks(from_).layers("tokens")[depth - 1].data.subarray(prefix * width), width));
    paint(panels.tokens.over, columns, columns, (i) => tokenColor(axes.get(depth), own_, width, i));
    panels.tokens.words.textContent = `Tokens after layer ${depth}: like colours, like tokens`;
    return { top, prefix: row.subarray(0, prefix).reduce((sum, value) => sum + value, 0), even: 1 / keys,
      brightest: weights.indexOf(top) };
  }

  function draw(now) {
    const { size: side, patch, tool: held } = now, columns = columnsOf(side);
    surface.classList.toggle("vb-painting", held !== "ask");
    cut.style.backgroundSize = `${100 / columns}% ${100 / columns}%`;
    const [row, column] = place(patch, columns);
    Object.assign(handle.style, { left: `${100 * column / columns}%`, top: `${100 * row / columns}%`,
      width: `${100 / columns}%`, height: `${100 / columns}%` });
    handle.setAttribute("aria-label", held === "ask"
      ? `patch that asks, ${inWords(patch, columns)}; arrow keys move it`
      : `patch under the brush, ${inWords(patch, columns)}; arrow keys move it, space applies the brush`);
    if (base) {
      const pixels = given();
      show(pad, pixels, side);
      if (found) for (const { under: to } of [panels.attends, panels.now]) show(to, pixels, side);
      if (found) show(panels.first.under, planes, side);
    }
    for (const holder of frames) {
      const made = frame(columns, columns);
      holder.replaceChildren(made.element);
      made.put(patch);
    }
    if (found) results.hidden = classes.hidden = false; // and stay, dimmed, while the next is computed
    const behind = !found || found.key !== marks.join("");
    for (const part of [results, classes]) part.classList.toggle("vb-behind", behind);
    clear.hidden = !marks?.some(Boolean);
    const marked_ = found ? found.key.replaceAll("0", "").length : 0;
    const says = [];
    let told = null;
    if (found) {
      const look = drawLayer(now), answer = drawAnswer(now);
      told = { look, answer };
      panels.first.under.closest(".vb-image").parentElement.hidden = found === clean;
      says.push(`Layer ${now.layer}, ${now.head === "mean" ? "mean of the heads" : `head ${Number(now.head) + 1}`}, ` +
        `from ${inWords(patch, columns)}: the brightest patch, ${inWords(look.brightest, columns)}, gets ${look.top.toFixed(3)} of its attention, ` +
        `the class token ${look.prefix.toFixed(3)}; an equal share is ${look.even.toFixed(4)}. `);
      says.push(node("b", {}, `First class: ${answer.top}, ${answer.chance.toFixed(2)}. `));
      if (found !== clean && answer.first) {
        says.push(answer.first === answer.top ? `With ${marked_} of ${marks.length} patches changed the first class is still ${answer.top}. ` : "",
          `The map of what draws the eye changed by ${answer.moved.toFixed(3)} per pixel on average (from 0 to 1). `);
      }
      says.push(node("span", { class: "vb-note" }, `Computed in ${found.seconds.toFixed(2)} s on ` +
        `${model.engine.kind === "webgpu" ? "the graphics card" : "one thread of the processor"}.`));
    }
    if (trouble) says.push(trouble);
    else if (model.ready() && behind) says.push(" The model is computing …");
    return { says, told: { found, clean, told, marks, model: model.engine },
      reached: found && found !== clean && told.answer.first && told.answer.first !== told.answer.top &&
        `${marked_} ${marked_ === 1 ? "patch turns" : "patches turn"} ${told.answer.first} into ${told.answer.top}.`,
      named: { photo: now.photo, size: side, layer: now.layer, head: now.head, patch, tool: held, round: now.round } };
  }

  const results = div("vb-photo-results", div("vb-photo-pair", panel("attends"), panel("tokens")),
    div("vb-controls", layer, head), div("vb-photo-pair", panel("now", true), panel("first", true)));
  results.hidden = true;
  const classes = div("vb-photo-classes", label("Which class?"), answers, ...bars.map(({ element }) => element), fitted);
  classes.hidden = true;
  model.whenKnown((heads) => {
    answers.replaceChildren(...Object.entries(heads).map(([name, { dataset, classes }]) =>
      node("option", { value: name }, `${classes.length} classes of ${dataset.split(",")[0]}`)));
    answers.value = state.answers;
  });
  figure.stage(draw,
    chooser, own.element, model.element,
    div("vb-photo", labelled("The photograph, as the model sees it", surface,
      div("vb-controls", tool, clear, size), classes), results), model.terms);
  // Under the photograph, where a stroke is made, also on a phone.
  classes.before(root.querySelector(".vb-readout"));
  choose(start.photo);
}
