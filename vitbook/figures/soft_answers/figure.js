import { node, set } from "../parts/page.js";
import { shareTold, softmax } from "../parts/numbers.js";
import { div, image, note, photo, term } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { address, linkTo, restored, stated } from "../parts/address.js";

/** Shares of the classes; the largest logit is taken off first, so that no quotient overflows. */
export function sharesAt(logits, temperature) {
  const top = Math.max(...logits);
  return softmax(logits.map((logit) => (logit - top) / temperature));
}

/** How many classes an even answer of the same entropy has. */
export const perplexity = (shares) =>
  Math.exp(-shares.reduce((sum, share) => sum + (share > 0 ? share * Math.log(share) : 0), 0));

/** Places of the shares, the largest first. */
export const ranked = (shares) => shares.map((_, i) => i).sort((a, b) => shares[b] - shares[a]);

/** What a link says of a state, as far as the page has it. */
export function answeredState(text, { images, teachers, temperatures }) {
  const said = stated(text, { image: [0, images.length - 1], teacher: [0, teachers.length - 1] });
  const temperature = Number(new URLSearchParams(text).get("temperature") ?? NaN);
  return temperatures.includes(temperature) ? { ...said, temperature } : said;
}

/**
 * @param {HTMLElement} root
 * @param {{images: string[], height: number, width: number, labels: number[], classes: string[],
 *   teachers: string[], logits: number[][][], reference: ?number, spread: string, temperatures: number[],
 *   goal: ?number, start: {image: number, teacher: number, temperature: number}, task: string}} data
 *   `logits` by teacher, image and class; `spread` names the perplexity.
 */
export function render(root, data) {
  const { classes, labels, teachers, temperatures, reference } = data;
  const figure = live(root, data, data.start), { state, change } = figure;

  const named = (i) => `image ${i + 1}, label ${classes[labels[i]]}`;
  const chooser = figure.chooser("image", "image", labels.map((_, i) => named(i)),
    { face: (i) => photo(data.images[i]) });
  const choice = teachers.length > 1 && figure.chooser("teacher", "teacher", teachers,
    { face: (i) => teachers[i], kind: "vb-choice" });
  const slider = figure.slider("temperature", "Temperature", {
    max: temperatures.length - 1, tell: (i) => temperatures[i],
    at: () => temperatures.indexOf(state.temperature),
    part: (i) => ({ temperature: temperatures[i] }),
  });
  const link = node("a", { class: "vb-link" }, "Link to this view");

  const chosen = photo(), spread = term(data.spread);
  const bars = classes.map((name) => {
    const bar = node("i"), mark = node("b", { class: "vb-reference" });
    const label = node("span", { class: "vb-true" }, "label"), told = node("span");
    const element = div("vb-answer", node("span", {}, label, " ", name),
      node("span", { class: "vb-track" }, bar, mark), told);
    return { element, bar, mark, label, told };
  });
  const legend = note();

  function draw({ image, teacher, temperature }) {
    const of = (which) => sharesAt(data.logits[which][image], temperature);
    const shares = of(teacher), [best, second] = ranked(shares), beside = of(reference ?? teacher);
    const marked = reference !== null && reference !== teacher;
    const classesLeft = perplexity(shares).toFixed(2);
    bars.forEach(({ element, bar, mark, label, told }, i) => {
      element.classList.toggle("vb-most", i === best);
      bar.style.width = `${100 * shares[i]}%`;
      mark.hidden = !marked;
      mark.style.left = `calc(${beside[i]} * (100% - 3px))`;
      label.hidden = i !== labels[image];
      told.textContent = shareTold(shares[i]);
    });
    set(chosen, { src: data.images[image], alt: named(image) });
    spread.say(classesLeft);
    legend.replaceChildren("Bar: ", teachers[teacher],
      ...(marked ? [". Thin mark: ", teachers[reference], ", at the same temperature"] : []), ".");
    const state = { image, teacher, temperature };
    linkTo(link, address(root, "answers", state));
    const twice = sharesAt(data.logits[teacher][image], 2 * temperature)[second];
    return {
      says: `${teachers[teacher]} at temperature ${temperature} says ${classes[best]} with ` +
        `${shareTold(shares[best])}, then ${classes[second]} with ${shareTold(shares[second])}: ` +
        `as if undecided among ${classesLeft} of ${classes.length} classes. The image's label is ` +
        `${classes[labels[image]]}. `,
      reached: data.goal !== null && teacher === 0 && shares[second] >= data.goal &&
        `${classes[second]} has ${shareTold(shares[second])}. At twice the temperature it would ` +
        `have ${shareTold(twice)}.`,
      told: { shares, beside }, named: state,
    };
  }

  const ruler = node("div", { class: "vb-ruler", "aria-hidden": "true" },
    ...[0, 50, 100].map((part) => node("span", { style: `left: ${part}%` }, `${part} %`)));
  figure.stage(draw, chooser,
    div("vb-controls vb-start",
      choice ? div("vb-prefix", node("span", {}, "Teacher"), choice) : "", slider, figure.reset),
    div("vb-prefix vb-shown", legend, link),
    div("vb-answering",
      div("vb-asking", image(data.height, data.width, chosen), spread.element),
      div("vb-answers", ...bars.map(({ element }) => element), ruler)));
  restored(root, "answers", (text) => answeredState(text, data), change);
}
