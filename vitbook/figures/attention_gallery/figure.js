import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { bytes, inWords, inside, place, signed } from "../parts/numbers.js";
import { canvas, div, frame, grid, image, label, labelled, legend, note, photo, term } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { notFetched, shelf, turned, unpack } from "../parts/pieces.js";
import { atlas, order, veil } from "./atlas.js";
import { likeness } from "./likeness.js";
import { address, linkTo, parse, restored, tell } from "../parts/address.js";

/** Drag over the cells of a grid: `pick` gets each new one; `near` says if a finger may begin there. */
export function sweep(surface, rows, columns, { pick, near }) {
  let last = -1, held = false;
  const under = (event) => {
    const [x, y] = inside(event, surface.getBoundingClientRect());
    const row = Math.floor(y * rows), column = Math.floor(x * columns);
    return row < 0 || column < 0 || row >= rows || column >= columns ? -1 : row * columns + column;
  };
  const to = (event) => {
    const cell = under(event);
    if (cell >= 0 && cell !== last) pick(last = cell);
  };
  const stop = () => (held = false);
  surface.addEventListener("touchstart", (event) => {
    // A finger away from the patch that asks scrolls the page; a tap there still chooses.
    held = event.touches.length === 1 && near(under(event.touches[0]));
    if (held) event.preventDefault();
  }, { passive: false });
  set(surface, {
    onpointerdown: (event) => {
      last = -1;
      if (event.pointerType === "touch") return;
      held = event.button === 0;
      if (held) to(event);
    },
    onpointermove: (event) => {
      if (held && event.pointerType !== "touch" && !event.buttons) stop();
      if (held) to(event);
    },
    onpointerup: stop, onpointercancel: stop, onpointerleave: stop,
  });
}

/**
 * @param {HTMLElement} root
 * @param {{photos: {image: string, layers: string[], tokens: ?string, like: ?string, bytes: number,
 *   first: string, far: number[]}[], names: string[], credits: string[], height: number, width: number,
 *   grid: [number, number], prefix: string[], layers: number, heads: number, fused: string[],
 *   unit: number, share: number, octave: number, ramp: string[], spotlight: number[][],
 *   goal: ?number, task: string, start: object}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, { layers, photos, names } = data;
  const heads = data.heads + data.fused.length; // lines of maps: the heads, and below them the fused
  const prefix = data.prefix.length, patches = rows * columns, tokens = prefix + patches;
  const shape = { ...data, heads, queries: tokens, patches, columns, prefix };
  const first = photos.map((each) => unpack(bytes(each.first),
    { ...shape, heads: layers * heads, queries: 1 }));
  const color = veil(data.spotlight);
  let trouble = "";
  const figure = live(root, data, data.start), { state, change } = figure;
  const ask = shelf(root, () => change({}), (reason) => {
    trouble = notFetched(reason, "maps");
    change({});
  });

  /** One head's row for the query: codes, step, distance; nothing until its layer has come. */
  function reading({ photo, query }, number) {
    const layer = Math.floor(number / heads), head = number % heads;
    const [from, h, q] = query === data.start.query ? [first[photo], number, 0]
      : [ask(photos[photo].layers[layer], (raw) => unpack(raw, shape)), head, query];
    return from && { codes: from.row(h, q), step: from.step(h, q), far: from.far(h, q),
      first: from.first(h, q) };
  }
  /** Cosines with the token that asks at the start, which come with the page. */
  const stored = photos.map(({ like }) => like && Float64Array.from(new Int8Array(bytes(like).buffer), (c) => c / 100));
  const tokensOf = (i) => ask(photos[i].tokens, (raw) => {
    const all = turned(raw, tokens), width = raw.length / tokens;
    return { row: (at) => all.subarray(at * width, (at + 1) * width),
      patches: all.subarray(prefix * width) };
  });

  const chooser = photos.length < 2 ? "" : figure.chooser("photo", "photograph", names,
    { face: (i) => set(photo(photos[i].image), { title: names[i] }) });
  const cells = figure.cells("query", rows, columns, { first: prefix });
  const source = photo(), over = photo(), map = canvas(), asked = frame(rows, columns);
  const holder = image(data.height, data.width, source, cells.element);
  sweep(holder, rows, columns, {
    pick: (patch) => change({ query: prefix + patch }),
    near: (patch) => {
      const [a, b] = [place(patch, columns), place(state.query - prefix, columns)];
      return patch >= 0 && state.query >= prefix
        && Math.max(Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1])) <= 1;
    },
  });
  const title = label(), sheet = canvas();
  const maps = atlas(sheet, { down: heads, across: layers, rows, columns, ramp: data.ramp });
  let shown = [];
  const matrix = grid({
    rows: heads, columns: layers, control: "head", label: "layer and head", name: () => "",
    pick: (row, column) => change(apart(shown[row * layers + column])),
  });
  const apart = (number) => ({ layer: Math.floor(number / heads), head: number % heads });
  const called = ({ layer, head }) => {
    const how = data.fused[head - data.heads];
    if (!how) return `layer ${layer + 1}, head ${head + 1}`;
    return how === "rollout" ? `rollout through layer ${layer + 1}` : `layer ${layer + 1}, ${how} of heads`;
  };
  const capital = (words) => words[0].toUpperCase() + words.slice(1);
  const fused = data.fused.length ? `; below them ${data.fused.join(", ")}` : "";
  set(matrix.element, { style: `--columns: ${layers}; --rows: ${heads}; ` +
    `column-gap: ${100 / maps.width}%; row-gap: ${100 / maps.height}%` });
  const scale = legend(data.ramp, tokens, 3), told = note(), small = note(), link = node("a", { class: "vb-link" }, "Link to this view");
  const terms = [0, 1, 2].map(() => term(""));
  const likes = photos.some((each) => each.tokens) && likeness(data, {
    tokens: tokensOf, known: (photo, query) => photo === data.start.photo && query === data.start.query && stored, color: (cosine) => color(Math.max(cosine, 0) ** 2),
    pick: (photo, patch) => change({ photo, query: prefix + patch }),
  });

  function arrange() {
    const next = order(photos[state.photo].far, layers, heads, state.nearest);
    if (shown.join() === next.join()) return;
    shown = next;
    matrix.cells.forEach((cell, i) => {
      const name = called(apart(shown[i])), far = photos[state.photo].far[shown[i]];
      set(cell, { "aria-label": name, title: `${name}: ${far.toFixed(1)} px` });
    });
  }

  /** The maps of all heads; how many of them have come. */
  function drawHeads() {
    arrange();
    const number = state.layer * heads + state.head;
    const readings = shown.map((each) => reading(state, each));
    readings.forEach((each, i) => maps.put(i, each?.codes));
    maps.show();
    matrix.choose(shown.indexOf(number));
    const own = readings[shown.indexOf(number)], far = photos[state.photo].far[number];
    const top = own ? Math.max(...own.codes, 1) : 1;
    paint(map, rows, columns, (patch) => color(own ? own.codes[patch] / top : 0));
    title.textContent = `${capital(called(state))} looks here`;
    terms[0].say(!own ? "…" : state.query < prefix ? "no position" : `${own.far.toFixed(1)} px`,
      "mean distance from this patch");
    terms[1].say(`${far.toFixed(1)} px`, "mean distance over all patches");
    terms[2].say(!prefix ? "none" : own ? `${(100 * own.first).toFixed(1)} %` : "…",
      `of its weight on the ${data.prefix[0] ?? "prefix"}`);
    if (own) scale.show(top * own.step);
    return { own, far, come: readings.filter(Boolean).length };
  }

  function drawAlike() {
    const { here, best, mean } = likes.show(state.photo, state.query, prefix, map);
    title.textContent = "Patches with similar tokens";
    terms[0].say(here ? signed(here.cosine) : "…", "most similar patch in this photograph");
    terms[1].say(best ? signed(best.cosine) : "…",
      best ? `most similar patch elsewhere: ${names[best.photo]}` : "most similar patch elsewhere");
    terms[2].say(mean === null ? "…" : signed(mean), "mean of all patches elsewhere");
    return { here, best, mean };
  }

  function draw(state) {
    const { photo, query, alike, nearest } = state, at = photos[photo];
    for (const each of [source, over]) set(each, { src: at.image });
    set(source, { alt: names[photo] });
    set(over, { alt: `${names[photo]} under the enlarged map` });
    asked.put(query - prefix);
    heading.textContent = nearest ? "All heads, nearest first" : `All heads: layers across, heads down${fused}`;
    for (const each of [below, scale.element]) each.hidden = alike;
    if (likes) likes.element.hidden = !alike;
    const seen = alike ? drawAlike() : drawHeads();
    const who = query < prefix ? `The ${data.prefix[query]}` : `The patch in ${inWords(query - prefix, columns)}`;
    const waits = alike ? !seen.here || (photos.length > 1 && !seen.best) : seen.come < layers * heads;
    told.textContent = alike ? "Bright: a cosine of 1. Dark: 0 or less. The frame marks the most similar patch; click a photograph to ask from it."
      : "Each small map goes from 0 to its own largest weight.";
    const credit = data.credits[photo] && ` Photograph: ${data.credits[photo]}.`;
    small.textContent = `Weights are stored to within 2 % of the largest in their row, cosines to ` +
      `within 0.01; distances and weights on the ${data.prefix[0] ?? "prefix"} come from the maps ` +
      `themselves. The data of this photograph, ${(at.bytes / 1e6).toFixed(1)} MB, come when they ` +
      `are asked for.${credit}`;
    linkTo(link, address(root, "attention", state));
    tell(root, { ...state });
    const reached = !alike && state.head < data.heads && seen.far < data.goal && `${called(state)}, ${seen.far.toFixed(1)} px.`;
    const says = trouble || (alike
      ? `${who} asks for tokens similar to its own.`
      : `${who} asks ${layers * data.heads} heads; ${called(state)} is enlarged.`);
    return { says: `${says}${waits && !trouble ? " Fetching …" : ""} `, reached,
      told: { seen, waits, row: seen.own && Array.from(seen.own.codes, (code) => code * seen.own.step) } };
  }

  const heading = label();
  const below = div("", heading, div("vb-atlas", sheet, matrix.element));
  below.style.maxWidth = `${72 * layers}px`;
  state.photo = data.start.photo;
  figure.stage(draw, chooser,
    div(`vb-pair vb-gallery${data.height < 64 ? " vb-coarse" : ""}`,
      labelled("Click or drag the patch that asks", holder),
      div("", title, image(data.height, data.width, over, map, asked.element))),
    div("vb-controls",
      ...data.prefix.map((name, query) => figure.toggle(query ? `prefix${query}` : "prefix", `Ask from the ${name}`,
        { on: () => state.query === query, part: () => ({ query }) })),
      figure.toggle("nearest", "Nearest first"),
      likes ? figure.toggle("alike", "Similar patches") : "", figure.reset, link),
    div("vb-terms", ...terms.map(({ element }) => element)), scale.element,
    below, likes ? likes.element : "", told).append(small);
  const limits = { photos: photos.length, queries: tokens, layers, heads, alike: Boolean(likes) };
  restored(root, "attention", (text) => parse(text, limits), change);
}
