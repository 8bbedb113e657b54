import { node } from "../parts/page.js";
import { argmax, clamp, inWords, place } from "../parts/numbers.js";
import { div, labelled, note, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { marked, MARKS, rescaled, softened } from "./photo_brush.js";
import { pixelsOf, wholeOf } from "./photo_file.js";
import { answerLook, layerLook } from "./photo_looks.js";
import { levelsOf, partShown, product, sidesOf } from "./photo_manifest.js";
import { droppedModel } from "./photo_own.js";
import { photoPad } from "./photo_pad.js";
import { press, sources } from "./photo_sources.js";
import { loader } from "./photo_loader.js";
import { twinLook } from "./photo_twins.js";

const QUICK = 0.2; // s that a run may take to be made while a stroke still goes on
const FREE = 8; // cells a side that a brush marks, for a model without patches

const isMarked = (key) => /[^0]/.test(key);

async function pictureOf(src) {
  const shown = new Image();
  shown.src = src;
  await shown.decode();
  return wholeOf(shown, shown.naturalWidth, shown.naturalHeight);
}

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], task: string, model: object | undefined, start: {photo: number,
 *   size: string, grid: [number, number], patch: number, layer: number | null}}} data  `model`: of a page that holds its own
 */
export function render(root, data) {
  const { grid: were, ...start } = data.start, names = data.photos.map(([name]) => name);
  const begin = { ...start, part: "square", layer: 1, head: "mean", tool: "ask", answers: "", kept: false, round: 0 };
  const figure = live(root, data, begin);
  const { state, change } = figure, still = root.querySelector(".vb-still");
  let manifest = null, levels = [];
  const gridOf = (size) => (manifest ? manifest.sizes[size].grid ?? [FREE, FREE] : were), grid = () => gridOf(state.size);
  const unmarked = () => new Uint8Array(product(grid())), ratio = () => base?.ratio ?? 1;
  const level = () => Math.max(0, levels.findIndex((sizes) => sizes.includes(state.size)));
  /** Of the sizes that cost about as much, the one that shows most of the square or of the whole. */
  function sizeAt(at, part) {
    const shares = levels[at].map((size) => product(partShown(size, part === "whole" ? ratio() : 1)));
    return levels[at][argmax(shares)];
  }
  let base = null, planes = null, soft = null, marks = null, trouble = "";
  let found = null, clean = null, wanted = null, busy = false;

  const model = loader(root, data, {
    size: () => state.size,
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
    levels = levelsOf(given);
    const { layers, answers, sizes } = given, size = patch !== null && sizes[state.size] ? state.size : Object.keys(sizes)[0];
    const heads = layers.map(({ attention }) => sizes[size].outputs[attention]?.shape[1] ?? 0), [rows, columns] = gridOf(size);
    const options = (of) => of.map(([value, words]) => node("option", { value }, words));
    cost.querySelector("input").max = levels.length - 1;
    cost.hidden = levels.length < 2;
    part.hidden = levels.every((each) => each.length < 2);
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
    Object.assign(state, { size, part: part.hidden ? "square" : state.part, layer: depth, head: "mean", answers: first, kept: false,
      tool: head.hidden && state.tool === "ask" ? "blank" : state.tool,
      patch: patch ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2) });
    if (patch !== null) Object.assign(begin, { layer: depth, answers: first });
    aim = null;
    if (base && patch === null) move(sizeAt(level(), state.part));
    // Strokes were made on another grid, but those made before the first model came.
    if (base) prepare(patch !== null && marks?.length === unmarked().length ? marks : unmarked());
    change({});
  }

  /** A new photograph: no marks, nothing known of it. */
  function take(picture) {
    base = picture;
    if (manifest) move(sizeAt(level(), state.part));
    prepare(unmarked());
    change({});
    request();
  }
  function prepare(kept) {
    planes = pixelsOf(base, sidesOf(state.size), manifest?.channels === 1);
    marks = kept;
    soft = found = clean = null;
  }
  const given = () => {
    const sides = sidesOf(state.size);
    if (marks.includes(MARKS.blur)) soft ??= softened(planes, sides, Math.round(sides[0] / grid()[0] / 2));
    return marked(planes, sides, marks, grid(), soft);
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
    grid, held: () => state.tool, patch: () => state.patch,
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
  const cost = figure.slider("cost", "Patches", { min: 0, max: 0, at: level, tell: () => grid().join(" × "),
    part: (at) => resize(sizeAt(at, state.part)) });
  const part = figure.select("part", "What of the photograph the model sees",
    [["square", "Its middle square"], ["whole", "As much of the photograph as fits"]],
    { part: choosePart });
  const costs = note();
  cost.hidden = part.hidden = true;
  let aim = null;
  let chosen = false; // by the reader: then a new photograph changes nothing
  function choosePart(value) {
    chosen = true;
    marks?.fill(0); // the strokes were on another part
    return { ...resize(sizeAt(level(), value)), part: value };
  }
  /** Another size, with the frame on the same place of the photograph, if that is seen. */
  function move(size) {
    const [was, is] = [state.size, size].map((each) => partShown(each, ratio())), before = grid();
    // From the middle, in photographs; of a patch that the reader chose, so that ways back lead back.
    if (aim?.patch !== state.patch) aim = { at: place(state.patch, before[1]).map((at, axis) => ((at + .5) / before[axis] - .5) * was[axis]) };
    state.size = size;
    const [row, column] = aim.at.map((from, axis) =>
      clamp(Math.floor((from / is[axis] + .5) * grid()[axis]), 0, grid()[axis] - 1));
    aim.patch = state.patch = row * grid()[1] + column;
  }
  /** The same photograph with as many strokes, of other pixels. */
  function resize(size) {
    const before = grid();
    move(size);
    if (base) prepare(rescaled(marks, before, grid()));
    queueMicrotask(request);
    return {};
  }
  const chooser = figure.chooser("photo", "photograph", names, {
    kind: "vb-album", face: (i) => photo(data.photos[i][1]),
    part: (i) => (own.forget(), choose(i), { photo: i }),
  });
  async function choose(i) {
    const picture = await pictureOf(data.photos[i][1]);
    if (state.photo === i) take(picture);
  }
  const own = sources(root, (picture) => {
    change({ photo: -1, part: chosen || part.hidden ? state.part : "whole" });
    take(picture);
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
    ofTwin.keep({ clean, manifest, photo: base, planes, size: sidesOf(state.size), grid: grid() });
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
      planes: found === clean ? planes : given(), size: sidesOf(state.size), patch: state.patch, saliency: outputs[map[0]].data,
      layers: [outputs[embedded].data, ...layers.map(({ tokens }) => outputs[tokens].data)],
      maps: layers.map(({ attention }) => outputs[attention]),
    };
    document.dispatchEvent(new CustomEvent("vitbook-look", { detail: window.vitbookLook }));
    flow.scrollIntoView();
  });
  if (flow) results.append(div("vb-controls", follow));

  /** What is seen, in words. */
  function tell(look, answer, twin, count) {
    const { layer: depth, head: chosen, patch } = state, where = (cell) => inWords(cell, grid()[1]);
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

  function tellCosts({ size }) {
    const macs = (manifest.sizes[size].macs / 1e9).toFixed(1), share = product(partShown(size, ratio()));
    const held = share > .995 ? "all" : `${Math.round(100 * share)} %`;
    return `${product(grid())} patches hold ${held} of the photograph. All that is computed takes ${macs} billion multiply-adds.`;
  }

  function draw(now) {
    const pixels = base && given(), behind = !found || found.key !== marks.join("");
    pad.draw(pixels, sidesOf(now.size));
    // The picture of the start stays until there is a model, or another photograph.
    still.hidden = Boolean(data.model) || model.ready() || now.photo !== start.photo;
    seen.hidden = !still.hidden;
    keep.disabled = !clean;
    follow.disabled = !found;
    if (found) { // and stay, dimmed, while the next is computed
      results.hidden = !manifest.layers.length && !manifest.map;
      classes.hidden = !now.answers;
      results.classList.toggle("vb-photo-tall", !manifest.map);
      keep.hidden = !clean || !manifest.layers.some(({ tokens }) => tokens);
      follow.hidden = !manifest.map || !manifest.embedded;
    }
    for (const part of [results, classes]) part.classList.toggle("vb-behind", behind);
    clear.hidden = !marks?.some(Boolean);
    costs.hidden = cost.hidden;
    if (!cost.hidden) costs.textContent = tellCosts(now);
    const shown = { ...now, photo: base, found, clean, manifest, planes, pixels, size: sidesOf(now.size), grid: grid() };
    const look = found && ofLayer.draw(shown), answer = found && ofAnswer.draw(shown), twin = found && ofTwin.draw(shown);
    const count = found ? found.key.replaceAll("0", "").length : 0;
    const says = found ? tell(look, answer, twin, count) : [];
    if (trouble) says.push(trouble);
    else if (model.ready() && behind) says.push(" The model is computing …");
    return { says, told: { found, clean, marks, planes, twin },
      reached: answer?.was && answer.was !== answer.name &&
        `${count} ${count === 1 ? "patch turns" : "patches turn"} the answer “${answer.was}” into “${answer.name}”.`,
      named: { photo: now.photo, size: now.size, part: now.part, layer: now.layer, head: now.head, patch: now.patch,
        tool: now.tool, answers: now.answers, marks: marks?.filter(Boolean).length ?? 0, round: now.round } };
  }

  const seen = labelled("The photograph, as the model sees it", pad.element, div("vb-controls", tool, clear), div("vb-controls", part, cost), costs);
  // What the model says takes the place of what loads it.
  figure.stage(draw, chooser, own.element, div("vb-photo", seen, div("", classes, results, model.element)), model.terms);
  // Under the photograph, where a stroke is made, also on a phone.
  seen.append(root.querySelector(".vb-readout"));
  choose(start.photo);
}
