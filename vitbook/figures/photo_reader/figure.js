import { node } from "../parts/page.js";
import { inWords, place } from "../parts/numbers.js";
import { div, labelled, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { marked, MARKS, rescaled, softened } from "./photo_brush.js";
import { middleSquare, pixelsOf } from "./photo_file.js";
import { answerLook, layerLook } from "./photo_looks.js";
import { sidesOf } from "./photo_manifest.js";
import { droppedModel } from "./photo_own.js";
import { photoPad } from "./photo_pad.js";
import { press, sources } from "./photo_sources.js";
import { loader } from "./photo_loader.js";
import { twinLook } from "./photo_twins.js";

const QUICK = 0.2; // s that a run may take to be made while a stroke still goes on
const FREE = 8; // cells a side that a brush marks, for a model without patches

const isMarked = (key) => /[^0]/.test(key);

async function squareOf(src) {
  const shown = new Image();
  shown.src = src;
  await shown.decode();
  return middleSquare(shown, shown.naturalWidth, shown.naturalHeight);
}

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], task: string, model: object | undefined, start: {photo: number,
 *   size: number, columns: number, patch: number, layer: number | null}}} data  `model`: of a page that holds its own
 */
export function render(root, data) {
  const { columns: were, ...start } = data.start, names = data.photos.map(([name]) => name);
  const begin = { ...start, layer: 1, head: "mean", tool: "ask", answers: "", kept: false, round: 0 };
  const figure = live(root, data, begin);
  const { state, change } = figure, still = root.querySelector(".vb-still");
  let manifest = null;
  const columnsOf = (size) => (manifest ? manifest.sizes[size].grid?.[1] ?? FREE : were), columns = () => columnsOf(state.size);
  let base = null, planes = null, soft = null, marks = null, trouble = "";
  let found = null, clean = null, wanted = null, busy = false;

  const model = loader(root, data, {
    side: () => state.size,
    known: (given) => model.ready() || adopt(given, data.model ? null : start.patch),
    opened: (given) => {
      if (given !== manifest) adopt(given);
      request();
      change({});
      return pad.handle;
    },
  });

  /** Take what a model is from what it says of itself. */
  function adopt(given, patch = null) {
    manifest = given;
    const sides = sidesOf(given), side = sides.includes(state.size) && patch !== null ? state.size : sides[0];
    const { layers, answers, sizes } = given, heads = layers.map(({ attention }) => sizes[side].outputs[attention]?.shape[1] ?? 0);
    const options = (of) => of.map(([value, words]) => node("option", { value }, words));
    size.replaceChildren(...options(sides.map((each) => [each, `${each} px: ${columnsOf(each)} × ${columnsOf(each)} patches`])));
    size.hidden = sides.length < 2;
    layer.querySelector("input").max = Math.max(1, layers.length);
    layer.hidden = layers.length < 2;
    head.replaceChildren(...options([["mean", "mean of the heads"],
      ...Array.from({ length: Math.max(0, ...heads) }, (_, i) => [i, `head ${i + 1}`])]));
    head.hidden = !heads.some(Boolean);
    const asks = tool.querySelector("[value=ask]");
    asks.disabled = asks.hidden = head.hidden;
    const first = Object.keys(answers)[0] ?? "";
    ofAnswer.name(given, first);
    const depth = (patch !== null && layers.length >= data.start.layer && data.start.layer) || layers.length;
    Object.assign(state, { size: side, layer: depth, head: "mean", answers: first, kept: false,
      tool: head.hidden && state.tool === "ask" ? "blank" : state.tool,
      patch: patch ?? Math.floor(columnsOf(side) / 2) * (columnsOf(side) + 1) });
    if (patch !== null) Object.assign(begin, { layer: depth, answers: first });
    if (base) prepare(marks?.length === columns() ** 2 ? marks : new Uint8Array(columns() ** 2));
    change({});
  }

  /** A new photograph: no marks, nothing known of it. */
  function take(square) {
    base = square;
    prepare(new Uint8Array(columns() ** 2));
    change({});
    request();
  }
  function prepare(kept) {
    planes = pixelsOf(base, state.size, manifest?.channels === 1);
    marks = kept;
    soft = found = clean = null;
  }
  const given = () => {
    if (marks.includes(MARKS.blur)) soft ??= softened(planes, state.size, Math.round(state.size / columns() / 2));
    return marked(planes, state.size, marks, columns(), soft);
  };

  /** Compute what is shown; of what is asked for meanwhile only the last. */
  async function request() {
    if (!base || !model.ready()) return;
    wanted = { planes, key: marks.join(""), pixels: given(), size: state.size, engine: model.engine };
    if (busy) return;
    busy = true;
    for (let next; (next = wanted); ) {
      // What a stroke changes is told beside the photograph as it came: that one is computed first.
      if (!clean && isMarked(next.key)) next = { ...next, key: "0".repeat(marks.length), pixels: next.planes };
      else wanted = null;
      try {
        const { outputs, seconds } = await next.engine.run(next.pixels, next.size);
        if (next.planes !== planes || next.engine !== model.engine) continue; // of another photograph or model
        found = { key: next.key, outputs, seconds };
        if (!isMarked(next.key)) clean = found;
        trouble = "";
      } catch (error) {
        if (next.engine !== model.engine) continue; // it was closed
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
      change({});
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
  const size = figure.select("size", "Pixels a side that the model sees", [], { part: resize });
  size.hidden = true;
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
  }, (transfer) => {
    const files = droppedModel(transfer);
    if (files) model.takeOwn(files);
    return files;
  });

  const layer = figure.slider("layer", "Layer", { min: 1, max: 1, tell: (value) => `${value} of ${manifest?.layers.length ?? 1}` });
  const head = figure.select("head", "Attention head", []);
  const ofLayer = layerLook(pad.framed), ofAnswer = answerLook(pad.framed, figure), ofTwin = twinLook();
  const results = div("vb-photo-results", div("vb-photo-pair", ...ofLayer.elements),
    div("vb-controls", layer, head), div("vb-photo-pair", ...ofAnswer.maps, ofTwin.element));
  const keep = press("keep", "Keep this photograph: seek twins in it", () => {
    ofTwin.keep({ clean, manifest, planes, side: state.size, columns: columns() });
    change({ kept: true });
  });
  results.append(div("vb-controls", keep));
  const classes = div("vb-photo-classes", ...ofAnswer.classes);
  results.hidden = classes.hidden = true;
  // The figure that leads through the model step by step, if the page has one.
  const flow = [...document.querySelectorAll(".vitbook-figure [id^='vb-flow-']")].at(-1)?.closest(".vitbook-figure");
  const follow = press("follow", "Follow the framed patch, step by step", () => {
    const { outputs } = found, { layers, map, embedded } = manifest;
    window.vitbookLook = {
      planes: found === clean ? planes : given(), side: state.size, patch: state.patch, saliency: outputs[map[0]].data,
      layers: [outputs[embedded].data, ...layers.map(({ tokens }) => outputs[tokens].data)],
      maps: layers.map(({ attention }) => outputs[attention]),
    };
    document.dispatchEvent(new CustomEvent("vitbook-look", { detail: window.vitbookLook }));
    flow.scrollIntoView();
  });
  if (flow) results.append(div("vb-controls", follow));

  /** What is seen, in words. */
  function tell(look, answer, twin, count) {
    const { layer: depth, head: chosen, patch } = state, where = (cell) => inWords(cell, columns());
    const before = manifest.prefix === 1 ? "the class token" : `the ${manifest.prefix} tokens before the patches`;
    const says = [look ? `Layer ${depth}, ${chosen === "mean" ? "mean of the heads" : `head ${Number(chosen) + 1}`}, ` +
      `from ${where(patch)}: the brightest patch, ${where(look.brightest)}, gets ${look.top.toFixed(3)} of its attention, ` +
      `${manifest.prefix ? `${before} ${look.prefix.toFixed(3)}; ` : ""}an equal share is ${look.even.toFixed(4)}. ` : ""];
    if (twin) says.push(twin.same ? "Kept: choose another photograph, and the twin of its framed patch is sought here. "
      : `Its twin in the photograph that you kept: ${inWords(twin.best, twin.columns)}, cosine ${twin.cosine.toFixed(2)}. `);
    if (answer.name) says.push(node("b", {}, answer.known ? `Answer: ${answer.name}, ${answer.chance.toFixed(2)}. ` : "Answer: I do not know. "));
    if (answer.was && answer.was === answer.name) {
      says.push(`With ${count} of ${marks.length} patches changed the answer is still “${answer.name}”. `);
    }
    if (answer.moved !== null) says.push(`The map of what draws the eye changed by ${answer.moved.toFixed(3)} per pixel on average (from 0 to 1). `);
    says.push(node("span", { class: "vb-note" }, `Computed in ${found.seconds.toFixed(2)} s on ` +
      `${model.engine.kind === "webgpu" ? "the graphics card" : "one thread of the processor"}.`));
    return says;
  }

  function draw(now) {
    const pixels = base && given(), behind = !found || found.key !== marks.join("");
    pad.draw(pixels, now.size);
    // The picture of the start stays until there is a model, or another photograph.
    still.hidden = Boolean(data.model) || model.ready() || now.photo !== start.photo;
    seen.hidden = !still.hidden;
    if (found) { // and stay, dimmed, while the next is computed
      results.hidden = !manifest.layers.length && !manifest.map;
      classes.hidden = !now.answers;
      results.classList.toggle("vb-photo-tall", !manifest.map);
      keep.hidden = !clean || !manifest.layers.some(({ tokens }) => tokens);
      follow.hidden = !manifest.map || !manifest.embedded;
    }
    for (const part of [results, classes]) part.classList.toggle("vb-behind", behind);
    clear.hidden = !marks?.some(Boolean);
    const shown = { ...now, found, clean, manifest, planes, pixels, side: now.size, columns: columns() };
    const look = found && ofLayer.draw(shown), answer = found && ofAnswer.draw(shown), twin = found && ofTwin.draw(shown);
    const count = found ? found.key.replaceAll("0", "").length : 0;
    const says = found ? tell(look, answer, twin, count) : [];
    if (trouble) says.push(trouble);
    else if (model.ready() && behind) says.push(" The model is computing …");
    return { says, told: { found, clean, marks, planes, twin },
      reached: answer?.was && answer.was !== answer.name &&
        `${count} ${count === 1 ? "patch turns" : "patches turn"} the answer “${answer.was}” into “${answer.name}”.`,
      named: { photo: now.photo, size: now.size, layer: now.layer, head: now.head, patch: now.patch,
        tool: now.tool, answers: now.answers, marks: marks?.filter(Boolean).length ?? 0, round: now.round } };
  }

  const seen = labelled("The photograph, as the model sees it", pad.element, div("vb-controls", tool, clear, size));
  // What the model says takes the place of what loads it.
  figure.stage(draw, chooser, own.element, div("vb-photo", seen, div("", classes, results, model.element)), model.terms);
  // Under the photograph, where a stroke is made, also on a phone.
  seen.append(root.querySelector(".vb-readout"));
  choose(start.photo);
}
