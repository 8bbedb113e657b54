import { node } from "../parts/page.js";
import { heat, paint } from "../parts/paint.js";
import { canvas, div, image, labelled, note, term } from "../parts/parts.js";
import { live } from "../parts/live.js";

const SCALE = 1.25; // where the scale ends, in uniform distances

/** Pixels between every two patches. */
export function distances([rows, columns], [down, across]) {
  const places = Array.from({ length: rows * columns }, (_, i) =>
    [down * Math.floor(i / columns), across * (i % columns)]);
  return places.map(([y, x]) => places.map(([v, u]) => Math.hypot(v - y, u - x)));
}

/** Each patch's weights over all patches: a Gaussian around it, each row with this sum. */
export function gaussian(pixels, sigma, sum) {
  return pixels.map((row) => {
    const powers = row.map((far) => (far ? Math.exp(-((far / sigma) ** 2) / 2) : 1));
    const all = powers.reduce((a, b) => a + b);
    return powers.map((power) => sum * power / all);
  });
}

/**
 * Mean attention distance as the ViT paper measures it: the class token is cut, and what is left
 * of a row is divided by its sum only when asked. A row without weight then has no distance.
 */
export function attentionDistance(rows, pixels, renormalize) {
  let total = 0, counted = 0;
  rows.forEach((row, i) => {
    let far = 0, kept = 0;
    row.forEach((weight, j) => {
      far += weight * pixels[i][j];
      kept += weight;
    });
    if (renormalize && !kept) return;
    total += renormalize ? far / kept : far;
    counted += 1;
  });
  return total / counted;
}

/**
 * @param {HTMLElement} root
 * @param {{grid: [number, number], patch: [number, number], query: number, share: number,
 *   widths: (number|null)[], uniform: number, digits: number, goal: ?number,
 *   ramp: string[], colors: [string, string], task: string}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, patches = rows * columns;
  const widest = data.widths.length - 1;
  const color = heat(data.ramp);
  const [blue, orange] = data.colors;
  const figure = live(root, data,
    { query: data.query, width: widest, share: data.share, renormalize: false });
  const { state } = figure;
  const pixels = distances(data.grid, data.patch);
  const px = (number) => (Number.isNaN(number) ? "none" : `${number.toFixed(data.digits)} px`);
  const sigmaOf = (width) => data.widths[width] ?? Infinity;

  const map = canvas(), cells = figure.cells("query", rows, columns);
  const toToken = node("i", { style: `--color: ${orange}; background-color: ${orange}` });
  const toPatches = node("i", { style: `background-color: ${blue}` });
  const tokenName = node("span"), patchesName = node("span");
  const fromHere = node("p"), colors = note();

  const wide = figure.slider("width", "How wide it looks", {
    max: widest, tell: (width) => width === 0 ? "itself only" : width === widest
      ? "everywhere alike" : `σ = ${sigmaOf(width).toFixed(sigmaOf(width) < 10 ? 1 : 0)} px`,
  });
  const share = figure.slider("share", "Weight on the class token",
    { max: 100, tell: (percent) => `${percent} %` });

  const looks = term(), far = term("how far that weight looks"), result = term();
  const kept = node("i", { style: `background-color: ${blue}` });
  const lost = node("i", { class: "vb-lost", style: `--color: ${orange}` });
  const at = (distance) => `${100 * distance / (SCALE * data.uniform)}%`;
  const mark = (distance, kind, words) =>
    node("span", { class: `vb-mark ${kind}`, style: `left: ${at(distance)}` }, words);
  const scale = div("vb-scale",
    data.goal === null ? "" : mark(data.goal, "vb-goal", `first head ${px(data.goal)}`),
    div("vb-budget", kept, lost),
    mark(0, "vb-zero", "0"), mark(data.uniform, "vb-null", `uniform ${px(data.uniform)}`));

  function measure() {
    const { query, width, share, renormalize } = state;
    const sigma = sigmaOf(width), left = 1 - share / 100;
    const weights = gaussian(pixels, sigma, left);
    const published = attentionDistance(weights, pixels, false);
    const where = attentionDistance(weights, pixels, true);
    const alone = attentionDistance([weights[query]], [pixels[query]], renormalize);
    const [whole] = gaussian([pixels[query]], sigma, 1);
    const row = renormalize && left ? whole : weights[query];
    const distance = renormalize ? where : published;
    return { left, published, where, distance, alone, row, top: Math.max(...whole) };
  }

  function showRow({ left, alone, row, top }) {
    const { share, renormalize } = state;
    paint(map, rows, columns, (patch) => color(row[patch], top));
    toToken.style.width = `${share}%`;
    toPatches.style.width = `${100 - share}%`;
    toToken.classList.toggle("vb-lost", renormalize);
    tokenName.textContent = `class token ${(share / 100).toFixed(2)}${renormalize ? ", cut" : ""}`;
    patchesName.textContent = `patches ${left.toFixed(2)}${renormalize && left ? " → 1" : ""}`;
    fromHere.textContent = `From this patch alone: ${px(alone)}`;
    colors.textContent =
      `Brightest: ${top.toPrecision(2)}, this head's peak with nothing on the class token`;
  }

  function showHead({ left, where, distance }) {
    const on = state.renormalize;
    if (on) looks.say(left ? "1" : "0/0", "weight on patches, renormalised");
    else looks.say(left.toFixed(2), "weight on patches");
    far.say(px(where));
    result.say(px(distance), on ? "renormalised distance" : "published distance");
    kept.style.width = at(distance || 0);
    lost.style.width = at((where || 0) - (distance || 0));
  }

  /** The number in words, and what it hides. */
  function words({ left, published, where, distance }) {
    if (state.renormalize) {
      if (!left) return "Nothing is left on patches to renormalise: 0/0 is no distance. ";
      return `Renormalised: ${px(distance)}, the mean over all ${patches} queries. ` +
        "This is how far the head looks, whatever the class token takes. ";
    }
    return `Published: ${px(distance)}, the mean over all ${patches} queries. ` + (
      !left ? "It reads as if each patch looked at itself, and none looks at any patch. "
        : left < 1 ? `The class token takes ${px(where - published)} off the ${px(where)} that ` +
          "the head looks. "
          : "With nothing on the class token this is how far the head looks. ");
  }

  function draw() {
    const found = measure(), { published, row, distance } = found;
    showRow(found);
    showHead(found);
    const near = Math.abs(published - data.goal) < data.uniform / 75; // a step of the slider
    const reached = data.goal !== null && state.share === 0 && near &&
      `${px(published)} from a head that looks near by. ` + (state.renormalize
        ? `Renormalised it stays; the first head goes to ${px(data.uniform)}.`
        : "Now renormalise it, and then the first head.");
    return { says: words(found), reached, told: { row, distance } };
  }

  figure.stage(draw,
    div("vb-meter",
      labelled("Click the patch that asks",
        image(rows * data.patch[0], columns * data.patch[1], map, cells.element),
        div("vb-budget", toPatches, toToken), div("vb-ends", patchesName, tokenName),
        fromHere, colors),
      labelled(`The head: all ${patches} patches ask like this one`, wide, share,
        div("vb-controls", figure.toggle("renormalize", "Renormalise"), figure.reset),
        div("vb-product", looks.element, node("span", {}, "×"), far.element,
          node("span", {}, "="), result.element),
        scale)));
}
