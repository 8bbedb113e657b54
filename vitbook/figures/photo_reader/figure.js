import { node } from "../parts/page.js";
import { inWords, place } from "../parts/numbers.js";
import { div, labelled, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { marked, MARKS, rescaled, softened } from "./photo_brush.js";
import { middleSquare, pixelsOf } from "./photo_file.js";
import { answerLook, layerLook, looks } from "./photo_looks.js";
import { photoPad } from "./photo_pad.js";
import { press, sources } from "./photo_sources.js";
import { loader } from "./photo_loader.js";
import { patchMeans } from "../parts/veil.js";

const QUICK = 0.2; // s that a run may take to be made while a stroke still goes on
const WRONG = 0.1; // of a saliency from 0 to 1: a graphics card that is farther from torch is left

const isMarked = (key) => /[^0]/.test(key);

async function squareOf(src) {
  const shown = new Image();
  shown.src = src;
  await shown.decode();
  return middleSquare(shown, shown.naturalWidth, shown.naturalHeight);
}

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
  const columnsOf = (size) => size / data.patch, columns = () => columnsOf(state.size);
  let base = null, planes = null, soft = null, marks = null, trouble = "";
  let found = null, clean = null, wanted = null, busy = false;

  const model = loader(() => state.size, async (engine) => {
    await check(engine);
    request();
    return pad.handle;
  });

  /** Compare this page with torch on the first photograph. */
  async function check(engine) {
    const side = data.sizes[0], given = pixelsOf(await squareOf(data.photos[0][1]), side);
    const apart = async () => {
      const { outputs } = await engine.run(given, side);
      const means = patchMeans(looks(outputs).saliency, side, columnsOf(side));
      return Math.max(...means.map((mean, i) => Math.abs(mean - data.check[i])));
    };
    let most = engine.kind === "webgpu" ? await apart().catch(() => Infinity) : await apart();
    if (!(most < WRONG) && engine.kind === "webgpu") {
      await engine.withoutGraphics(side);
      most = await apart();
    }
    model.checked(most);
  }

  /** A new photograph: no marks, nothing known of it. */
  function take(square) {
    base = square;
    prepare(new Uint8Array(columns() ** 2));
    change({});
    request();
  }
  function prepare(kept) {
    planes = pixelsOf(base, state.size);
    marks = kept;
    soft = found = clean = null;
  }
  const given = () => {
    if (marks.includes(MARKS.blur)) soft ??= softened(planes, state.size, data.patch / 2);
    return marked(planes, state.size, marks, columns(), soft);
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

  const pad = photoPad({
    columns, held: () => state.tool, patch: () => state.patch,
    ask: (patch) => change({ patch }),
    mark: (patches, done) => {
      if (!base) return;
      for (const patch of patches) marks[patch] = MARKS[state.tool];
      change(patches.length ? { patch: patches.at(-1) } : {});
      if (done || found?.seconds < QUICK) request();
    },
  });
  const tool = figure.select("tool", "What a click or a stroke on the photograph does", [
    ["ask", "A click asks: where does this patch look?"], ["blank", "Brush: blank a patch"],
    ["blur", "Brush: blur a patch"], ["none", "Brush: bring a patch back"],
  ]);
  const clear = figure.button("clear", "Bring all back", () => {
    marks.fill(0);
    pad.handle.focus({ preventScroll: true }); // this button goes
    change({});
    request();
  });
  const size = figure.select("size", "Pixels a side that the model sees", data.sizes.map((each) =>
    [each, `${each} px: ${columnsOf(each)} × ${columnsOf(each)} patches`]), { part: resize });
  /** The same photograph with as many strokes, of other pixels. */
  function resize(value) {
    const before = columns(), [row, column] = place(state.patch, before);
    state.size = Number(value);
    const moved = (at) => Math.floor((at + .5) * columns() / before);
    if (base) prepare(rescaled(marks, columns()));
    queueMicrotask(request);
    return { patch: moved(row) * columns() + moved(column) };
  }
  const chooser = figure.chooser("photo", "photograph", names, {
    kind: "vb-album", face: (i) => photo(data.photos[i][1]),
    part: (i) => (own.forget(), choose(i), { photo: i }),
  });
  async function choose(i) {
    const square = await squareOf(data.photos[i][1]);
    if (state.photo === i) take(square);
  }
  const own = sources(root, (square) => {
    change({ photo: -1 });
    take(square);
  });

  const layer = figure.slider("layer", "Layer", { min: 1, max: data.depth, tell: (value) => `${value} of ${data.depth}` });
  const head = figure.select("head", "Attention head", [["mean", "mean of the heads"],
    ...Array.from({ length: data.heads }, (_, i) => [String(i), `head ${i + 1}`])]);
  const ofLayer = layerLook(pad.framed), ofAnswer = answerLook(pad.framed, figure);
  const results = div("vb-photo-results", div("vb-photo-pair", ...ofLayer.elements),
    div("vb-controls", layer, head), div("vb-photo-pair", ...ofAnswer.maps));
  const classes = div("vb-photo-classes", ...ofAnswer.classes);
  results.hidden = classes.hidden = true;
  // The figure that leads through the model step by step, if the page has one.
  const flow = [...document.querySelectorAll(".vitbook-figure [id^='vb-flow-']")].at(-1)?.closest(".vitbook-figure");
  const follow = press("follow", "Follow the framed patch, step by step", () => {
    const { saliency, layers } = looks(found.outputs), { data: embedded } = found.outputs["answer:embedded"];
    window.vitbookLook = {
      planes: found === clean ? planes : given(), side: state.size, patch: state.patch, saliency,
      layers: [embedded, ...layers("tokens").map((each) => each.data)], maps: layers("attention"),
    };
    document.dispatchEvent(new CustomEvent("vitbook-look", { detail: window.vitbookLook }));
    flow.scrollIntoView();
  });
  if (flow) results.append(div("vb-controls", follow));
  model.whenKnown((heads) => ofAnswer.name(heads, state.answers));

  /** What is seen, in words. */
  function tell(look, answer, count) {
    const { layer: depth, head: chosen, patch } = state, where = (cell) => inWords(cell, columns());
    const says = [`Layer ${depth}, ${chosen === "mean" ? "mean of the heads" : `head ${Number(chosen) + 1}`}, ` +
      `from ${where(patch)}: the brightest patch, ${where(look.brightest)}, gets ${look.top.toFixed(3)} of its attention, ` +
      `the class token ${look.prefix.toFixed(3)}; an equal share is ${look.even.toFixed(4)}. `,
    node("b", {}, `First class: ${answer.top}, ${answer.chance.toFixed(2)}. `)];
    if (answer.was) {
      says.push(answer.was === answer.top
        ? `With ${count} of ${marks.length} patches changed the first class is still ${answer.top}. ` : "",
      `The map of what draws the eye changed by ${answer.moved.toFixed(3)} per pixel on average (from 0 to 1). `);
    }
    says.push(node("span", { class: "vb-note" }, `Computed in ${found.seconds.toFixed(2)} s on ` +
      `${model.engine.kind === "webgpu" ? "the graphics card" : "one thread of the processor"}.`));
    return says;
  }

  function draw(now) {
    const pixels = base && given(), behind = !found || found.key !== marks.join("");
    pad.draw(pixels, now.size);
    if (found) results.hidden = classes.hidden = false; // and stay, dimmed, while the next is computed
    for (const part of [results, classes]) part.classList.toggle("vb-behind", behind);
    clear.hidden = !marks?.some(Boolean);
    const shown = { ...now, found, clean, planes, pixels, side: now.size, columns: columns() };
    const look = found && ofLayer.draw(shown), answer = found && ofAnswer.draw(shown, model.heads());
    const count = found ? found.key.replaceAll("0", "").length : 0;
    const says = found ? tell(look, answer, count) : [];
    if (trouble) says.push(trouble);
    else if (model.ready() && behind) says.push(" The model is computing …");
    return { says, told: { found, clean, marks },
      reached: answer?.was && answer.was !== answer.top &&
        `${count} ${count === 1 ? "patch turns" : "patches turn"} ${answer.was} into ${answer.top}.`,
      named: { photo: now.photo, size: now.size, layer: now.layer, head: now.head, patch: now.patch,
        tool: now.tool, answers: now.answers, marks: marks?.filter(Boolean).length ?? 0, round: now.round } };
  }

  figure.stage(draw,
    chooser, own.element, model.element,
    div("vb-photo", labelled("The photograph, as the model sees it", pad.element,
      div("vb-controls", tool, clear, size), classes), results), model.terms);
  // Under the photograph, where a stroke is made, also on a phone.
  classes.before(root.querySelector(".vb-readout"));
  choose(start.photo);
}
