import { node, set } from "../parts/page.js";
import { clamp, signed } from "../parts/numbers.js";
import { div, drag, label, note, photo, track } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** The pairs that a score puts in the right order, and Kendall's tau-b; null is no score. */
export function agreement(scores, truths) {
  const known = scores.map((score, i) => [score, truths[i]]).filter(([score]) => score !== null);
  let right = 0, wrong = 0, apart = 0, pairs = 0;
  known.forEach(([score, truth], i) => known.slice(i + 1).forEach(([other, its]) => {
    const way = ((score > other) - (score < other)) * ((truth > its) - (truth < its));
    right += way > 0;
    wrong += way < 0;
    apart += score !== other;
    pairs += truth !== its;
  }));
  return { right, wrong, pairs, tau: apart && pairs ? (right - wrong) / Math.sqrt(apart * pairs) : null };
}

/** The largest is at place 1; equal ones share the better place; null has none. */
export const places = (values) => values.map((value) => value === null ? null
  : 1 + values.filter((other) => other !== null && other > value).length);

/** The places, by truth, of what has the highest score. */
export function firstChoices(scores, truths) {
  const ends = places(truths);
  return places(scores).flatMap((at, i) => at === 1 ? [ends[i]] : []).sort((a, b) => a - b);
}

/** An order with one card at another place. */
export function moved(order, card, to) {
  const others = order.filter((each) => each !== card), at = clamp(to, 0, others.length);
  return [...others.slice(0, at), card, ...others.slice(at)];
}

/** An order, its first card the best, as scores. */
export const asScores = (order) => order.map((_, card) => -order.indexOf(card));

/** Put elements in an order around one of them, which stays: it keeps focus and pointer. */
function arrange(elements, still) {
  const at = elements.indexOf(still);
  still.before(...elements.slice(0, at));
  still.after(...elements.slice(at + 1));
}

/** What became of each card, the best first: its accuracy and its seeds on one scale for all. */
function outcomes(cards, best, ends) {
  const low = Math.min(...cards.map(({ range }) => range[0]));
  const high = Math.max(...cards.map(({ range }) => range[1]));
  const percent = (value) => 100 * (value - low) / (high - low);
  return best.map((card) => {
    const { name, tuned, told, seeds, range: [from, to] } = cards[card];
    const bar = node("i", { style: `left: ${percent(from)}%; right: ${100 - percent(to)}%` });
    const mean = node("b", { style: `left: ${percent(tuned)}%` });
    return node("li", {}, node("b", {}, `${ends[card]}. ${name}`),
      note(told, " ", node("span", {}, `(${seeds})`)), div("vb-seeds", bar, mean));
  });
}

/** An order beside the others: how many of its pairs are right, and what its first choice became. */
const standing = ({ name, right, pairs, tau, ends, missing }) => node("li", {},
  node("span", {}, name), track(node("i", { style: `width: ${100 * right / pairs}%` })),
  node("span", {}, `${right} of ${pairs} pairs`), node("span", {}, `τ-b ${signed(tau)}`),
  node("span", { class: "vb-note" }, `first choice ends at place ${ends.join(" or ")}` +
    (missing ? `; ${missing} without this score` : "")));

/**
 * @param {HTMLElement} root
 * @param {{cards: {name: string, about: string, filters: ?string, tuned: number, told: string,
 *   range: [number, number], seeds: string}[], scores: {name: string, values: ?number[],
 *   told: string[]}[], close: string, task: string}} data
 */
export function render(root, data) {
  const { cards, scores } = data, count = cards.length, all = scores.length + 1;
  const tuned = cards.map((card) => card.tuned), alphabet = cards.map((_, i) => i);
  const best = [...alphabet].sort((a, b) => tuned[b] - tuned[a]);
  const figure = live(root, data, { order: alphabet, shown: 0, first: null, last: null });
  const { state, change } = figure;

  const put = (card, to) => {
    const order = moved(state.order, card, to);
    if (`${order}` !== `${state.order}`) change({ order, last: card });
  };
  const step = (card, by) => put(card, state.order.indexOf(card) + by);
  const next = figure.button("shown", "", () => state.shown < all &&
    change({ shown: state.shown + 1, first: state.first ?? state.order, last: null }));

  const made = cards.map(({ name, about, filters }, i) => {
    // What is pressed here is not where the card is to be dragged.
    const alone = (act) => (event) => { event.stopPropagation(); act(); };
    const arrow = (sign, way, by) => node("button", { type: "button", tabindex: -1,
      "aria-label": `${name} ${way}`, onpointerdown: alone(() => {}),
      onclick: alone(() => step(i, by)) }, sign);
    const grip = node("span", { class: "vb-grip", tabindex: 0, role: "slider", "aria-label": name,
      "aria-orientation": "vertical", "aria-valuemin": 1, "aria-valuemax": count });
    const picture = filters && div("vb-image vb-filters",
      set(photo(filters), { alt: `filters of the first layer of ${name}` }));
    const numbers = div("vb-scores");
    const element = node("li", { class: "vb-card" },
      div("vb-lift", arrow("▲", "up", -1), grip, arrow("▼", "down", 1)), picture || "",
      div("", node("b", {}, name), note(about)), numbers);
    drag(element, { handle: grip, move: (_, down) => step(i, Math.round(down - 0.5)),
      walk: (down) => step(i, down) });
    return { element, grip, numbers };
  });
  const list = node("ol", { "data-control": "order", "aria-label": "Your order" },
    ...made.map(({ element }) => element));
  const heads = div("vb-scores"), lines = node("svg:svg", { viewBox: `0 0 1 ${count}`,
    preserveAspectRatio: "none", "aria-hidden": "true" });

  const outcome = node("ol", { "aria-label": "The order after fine-tuning" },
    ...outcomes(cards, best, places(tuned)));
  const board = node("ul", { class: "vb-agreement" }), close = note(data.close);
  const chart = div("vb-ranking",
    div("vb-card vb-heads-of", label("Your order"), heads), div(), label("After fine-tuning"),
    list, div("vb-lines", lines), outcome);
  const ending = [...chart.children].filter((_, i) => i % 3).concat(board, close);

  function showScores(shown) {
    const seen = scores.slice(0, shown);
    heads.replaceChildren(...seen.map(({ name }) => node("span", {}, name)));
    made.forEach(({ numbers }, i) => numbers.replaceChildren(...seen.map(({ name, values, told }) =>
      node("span", { class: places(values)[i] === 1 && "vb-top" },
        node("span", { class: "vb-spoken" }, `${name}: `), told[i]))));
    chart.style.setProperty("--scores", seen.length);
  }

  /** Each order with its pairs; the reader's own once more where it has changed since. */
  function rivals({ order, first }) {
    const own = `${first}` === `${alphabet}` ? "the alphabet (no card moved)"
      : "you, before the scores";
    const now = `${order}` === `${first}` ? [] : [{ name: "you, now", values: asScores(order) }];
    return [{ name: own, values: asScores(first) }, ...now, ...scores].map(({ name, values }) =>
      ({ name, ...agreement(values, tuned), missing: values.filter((v) => v === null).length,
        ends: firstChoices(values, tuned) }));
  }

  const share = ({ right, pairs }) => right / pairs;
  const words = ({ right, pairs, tau }) => `${right} of ${pairs} (τ-b ${signed(tau)})`;

  function draw({ order, shown, first, last }) {
    arrange(order.map((card) => made[card].element), made[last ?? order[0]].element);
    order.forEach((card, i) => {
      made[card].grip.textContent = i + 1;
      set(made[card].grip, { "aria-valuenow": i + 1, "aria-valuetext": `place ${i + 1} of ${count}` });
    });
    showScores(Math.min(shown, scores.length));
    const over = shown === all;
    ending.forEach((element) => (element.hidden = !over));
    chart.classList.toggle("vb-revealed", over);
    next.textContent = over ? "All is shown" : shown === scores.length
      ? "Show the accuracy after fine-tuning" : `Show the next score: ${scores[shown].name}`;
    set(next, { "aria-disabled": over && "true" });
    lines.replaceChildren(...order.map((card, i) => node("svg:line", {
      x1: 0, y1: i + 0.5, x2: 1, y2: best.indexOf(card) + 0.5,
      class: i === 0 ? "vb-pick" : null })));
    const found = over ? rivals(state) : [];
    board.replaceChildren(...found.map(standing));
    const where = last === null ? ""
      : `${cards[last].name} is at place ${order.indexOf(last) + 1} of ${count}. `;
    const own = found.at(-all), rival = found.at(-scores.length);
    return {
      says: where + (over ? `Pairs in the right order: your order ${words(own)}, ` +
        `${rival.name} ${words(rival)}. `
        : shown ? `Shown: ${scores.slice(0, shown).map(({ name }) => name).join(", ")}. `
          : "No score is shown yet. "),
      reached: over && `${first}` !== `${alphabet}` && share(found[0]) > share(rival) &&
        `before you looked, ${found[0].right} of ${found[0].pairs} pairs were right.`,
      told: { found },
      named: { order: order.join(","), shown },
    };
  }

  figure.stage(draw, div("vb-controls", next, figure.reset),
    note("Drag a card by its number, or press its arrows. By keyboard: go to the number, press ↑ or ↓."),
    chart, board, close);
}
