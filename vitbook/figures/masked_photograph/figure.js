import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { bytes, inWords, shareTold } from "../parts/numbers.js";
import { canvas, div, frame, image, label, labelled, term, track } from "../parts/parts.js";
import { cellPad, repainted } from "../parts/cell_pad.js";
import { live } from "../parts/live.js";
import { notFetched, shelf } from "../parts/pieces.js";
import { address, linkTo, restored, stated } from "../parts/address.js";
import { encode, linear, load } from "../parts/vision_transformer.js";
import {
  answerOf, colorClass, commonest, levelsOf, maskedBy, meanColors, middleOf, nearestClass, wordLimits, wordsOf,
} from "./color_guesses.js";

const HATCH = [104, 144], STRIPE = 2; // what hides a patch

/** What a link says of a state, as far as the page has it. */
export function maskedState(text, photos, patches) {
  const { photo, patch, ...words } = stated(text,
    { photo: [0, photos - 1], patch: [0, patches - 1], ...wordLimits(patches) });
  const masked = maskedBy(words, patches);
  return { ...(photo !== undefined && { photo }), ...(patch !== undefined && { patch }),
    ...(masked && { masked }) };
}

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], channels: number, size: [number, number],
 *   patch: [number, number], grid: [number, number], prefix: number, heads: number, depth: number, colors: number,
 *   weights: [string, number[]][], values: string, goal: ?number, task: string,
 *   start: {photo: number, patch: number, masked: number[]}, answers: object}} data
 *   `values` is the key of the piece that holds the weights; `answers` by patch, at the start.
 */
export function render(root, data) {
  const { size, channels, prefix } = data, [height, width] = size, [high, wide] = data.patch;
  const [rows, columns] = data.grid, patches = rows * columns;
  const photos = data.photos.map(([name, text]) => {
    const pixels = bytes(text), means = meanColors(pixels, size, data.patch);
    const truth = means.map(colorClass);
    return { name, pixels, means, truth, most: commonest(truth) };
  });
  const figure = live(root, data, data.start), { state, change } = figure;
  let trouble = "";
  const ask = shelf(root, () => change({}), (reason) => {
    trouble = notFetched(reason);
    change({});
  });

  const keyOf = ({ photo, masked }) => JSON.stringify([photo, wordsOf(masked, patches)]);
  const first = keyOf(data.start);
  let last = {};
  /** Answers by patch; nothing until the model has come. */
  function answers({ photo, masked }, key) {
    if (key === first) return data.answers;
    if (!masked.length) return {};
    if (last.key === key) return last.found;
    const model = ask(data.values, (raw) => load(data, raw));
    if (!model) return null;
    const { tokens } = encode(photos[photo].pixels, model, masked);
    const each = tokens.length / (prefix + patches), found = {};
    for (const patch of masked) {
      const token = tokens.subarray((prefix + patch) * each, (prefix + patch + 1) * each);
      found[patch] = answerOf(linear(token, 1, model.parts("predictor")), photos[photo].truth[patch]);
    }
    last = { key, found };
    return found;
  }

  const colorAt = ({ pixels }, i) => channels === 1 ? Array(3).fill(pixels[i])
    : [0, 1, 2].map((channel) => pixels[channel * height * width + i]);
  /** The photograph, and in the place of masked patches what `fill` gives of them, or stripes. */
  const show = (to, photo, masked, fill) => paint(to, height, width, (i, row, column) => {
    const patch = Math.floor(row / high) * columns + Math.floor(column / wide);
    if (!masked.has(patch)) return colorAt(photo, i);
    return fill?.(patch) ?? Array(3).fill(HATCH[Math.floor((row + column) / STRIPE) % 2]);
  });

  const names = photos.map(({ name }) => name);
  const chooser = photos.length < 2 ? "" : figure.chooser("photo", "photograph", names, { face: (i) => {
    const made = canvas();
    show(made, photos[i], new Set());
    return made;
  } });
  const seen = canvas(), guessed = canvas(), true_ = canvas();
  const looked = [frame(rows, columns), frame(rows, columns)];
  const masks = cellPad({
    rows, columns, control: "masked",
    label: "patches; the arrow keys walk, space masks one or shows it again",
    name: (row, column) => inWords(row * columns + column, columns),
    painted: (patch) => state.masked.includes(patch),
    paint: (patches, on) => change({
      masked: repainted(state.masked, patches, on), patch: patches.at(-1),
    }),
  }, seen);
  const pad = set(masks.element, { style: `aspect-ratio: ${width} / ${height}` });
  pad.append(looked[0].element);
  const cells = figure.cells("patch", rows, columns, { label: "patch whose guess is told below" });

  const half = figure.button("half", "Mask a random half", () => {
    const order = Array.from({ length: patches }, (_, patch) => [Math.random(), patch]).sort((a, b) => a[0] - b[0]);
    const masked = order.slice(0, Math.round(patches / 2)).map(([, patch]) => patch).sort((a, b) => a - b);
    change({ masked, patch: masked[0] });
  });
  const clear = figure.button("clear", "Show all", () => change({ masked: [] }));
  const link = node("a", { class: "vb-link" }, "Link to this view");

  const counts = ["the model", "the commonest colour", "the nearest patches' mean"].map(term);
  const counted = label(), asked = label();
  const bars = Array.from({ length: 6 }, () => {
    const swatch = node("i", { class: "vb-swatch" }), name = node("span"), bar = node("i"), chance = node("span");
    return { swatch, name, bar, chance, element: div("vb-guess", swatch, name, track(bar), chance) };
  });
  const told = (color) => levelsOf(color, channels).join(" ");
  function showBar({ swatch, name, bar, chance }, color, share, words) {
    swatch.style.background = color === null ? "" : `rgb(${middleOf(color, channels)})`;
    name.textContent = words;
    bar.style.width = `${100 * (share ?? 0)}%`;
    chance.textContent = share === null ? "" : shareTold(share);
  }

  function draw({ photo: number, patch, masked: list }) {
    const photo = photos[number], { truth, means } = photo, masked = new Set(list);
    const key = keyOf(state), found = answers(state, key), answer = found?.[patch];
    const best = (each) => found?.[each]?.top[0][0];
    show(seen, photo, masked);
    show(guessed, photo, masked, (each) => found && middleOf(best(each), channels));
    show(true_, photo, masked, (each) => middleOf(truth[each], channels));
    looked.forEach((each) => each.put(patch));
    const right = list.filter((each) => best(each) === truth[each]);
    masks.show();
    cells.cells.forEach((cell, i) => {
      const exact = right.includes(i);
      cell.classList.toggle("vb-exact", exact);
      cell.setAttribute("aria-label", `${inWords(i, columns)}: ` + (!masked.has(i) ? "shown"
        : !found ? "masked" : exact ? "guessed exactly" : "guessed otherwise"));
    });

    const same = (guess) => list.filter((each) => guess(each) === truth[each]).length;
    const hits = [found ? right.length : "…", same(() => photo.most),
      same((each) => nearestClass(means, masked, each, columns))];
    counts.forEach((each, i) => each.say(list.length ? hits[i] : "–"));
    counted.textContent = `Exactly right, of ${list.length} masked patches`;
    const where = inWords(patch, columns);
    asked.textContent = `Guesses for ${where}, as steps 0 to 7 of ` +
      (channels === 1 ? "grey" : "red, green, blue");
    const [trueBar, ...others] = bars;
    const isAsked = masked.has(patch);
    showBar(trueBar, truth[patch], isAsked && answer ? answer.chance : null, `true: ${told(truth[patch])}`);
    others.forEach((bar, i) => {
      const [color, chance] = answer?.top[i] ?? [null, null];
      bar.element.classList.toggle("vb-truly", color === truth[patch]);
      showBar(bar, color, chance, color === null ? "" : told(color));
    });

    const named = { photo: number, patch, ...wordsOf(list, patches) };
    linkTo(link, address(root, "masked", named));
    const [color, chance] = answer?.top[0] ?? [], wrong = answer && color !== truth[patch];
    const says = !isAsked ? `The model sees ${where}: mask it to hear a guess. `
      : !answer ? trouble || "The model is being fetched. "
      : `In ${where} the model thinks ${told(color)} likeliest, with ${shareTold(chance)}` +
        (wrong ? `; the true colour, ${told(truth[patch])}, has place ${answer.rank} of ${data.colors}, with ` +
          `${shareTold(answer.chance)}. ` : ", and is right. ");
    return {
      says, named, told: { answers: found, hits },
      reached: data.goal !== null && wrong && chance >= data.goal &&
        `the model is ${shareTold(chance)} sure of ${told(color)}, and it is ${told(truth[patch])}.`,
    };
  }

  figure.stage(draw, chooser,
    div("vb-controls", half, clear, figure.reset, link),
    div("vb-reader vb-fill",
      div("vb-wide", label("Click or drag to mask"), pad),
      labelled("Guess (dot: right)", image(height, width, guessed, cells.element)),
      labelled("True mean colours", image(height, width, true_, looked[1].element))),
    div("vb-filled",
      div("", counted, div("vb-terms", ...counts.map(({ element }) => element))),
      div("", asked, ...bars.map(({ element }) => element))));
  restored(root, "masked", (text) => maskedState(text, photos.length, patches), change);
}
