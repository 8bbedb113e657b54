import { node, stage, heat, paint, grid } from "./shared.js";

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
  const start = { query: data.query, width: widest, share: data.share, renormalize: false };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };
  const pixels = distances(data.grid, data.patch);
  const px = (number) => (Number.isNaN(number) ? "none" : `${number.toFixed(data.digits)} px`);

  const map = node("canvas", { "aria-hidden": "true" });
  const cells = grid({
    rows, columns, control: "query", label: "patch that asks",
    name: (row, column) => `patch row ${row + 1}, column ${column + 1}`,
    pick: (row, column) => change({ query: row * columns + column }),
  });
  const ratio = `aspect-ratio: ${columns * data.patch[1]} / ${rows * data.patch[0]}`;
  const picture = node("div", { class: "vb-picture", style: ratio }, map, cells.element);
  const toToken = node("i", { style: `--color: ${orange}; background-color: ${orange}` });
  const toPatches = node("i", { style: `background-color: ${blue}` });
  const tokenName = node("span"), patchesName = node("span");
  const fromHere = node("p"), colors = node("p", { class: "vb-note" });

  const slider = (control, label, max) => {
    const amount = node("span", { class: "vb-amount" });
    const input = node("input", {
      type: "range", min: 0, max, step: 1, "data-control": control,
      oninput: () => change({ [control]: Number(input.value) }),
    });
    const show = (value, told) => {
      input.value = value;
      input.setAttribute("aria-valuetext", amount.textContent = told);
    };
    const element = node("label", { class: "vb-slider" }, node("span", {}, label), amount, input);
    return { element, show };
  };
  const wide = slider("width", "How wide it looks", widest);
  const share = slider("share", "Weight on the class token", 100);
  const button = (control, words, onclick) =>
    node("button", { type: "button", "data-control": control, onclick }, words);
  const renormalize = button("renormalize", "Renormalise",
    () => change({ renormalize: !state.renormalize }));
  const reset = button("reset", "Reset", () => change(start));

  const term = () => {
    const number = node("b"), name = node("span", { class: "vb-note" });
    const say = (...words) => [number.textContent, name.textContent] = words;
    return { say, element: node("div", {}, number, name) };
  };
  const looks = term(), far = term(), result = term();
  const kept = node("i", { style: `background-color: ${blue}` });
  const lost = node("i", { class: "vb-lost", style: `--color: ${orange}` });
  const place = (distance) => `${100 * distance / (SCALE * data.uniform)}%`;
  const mark = (distance, kind, words) =>
    node("span", { class: `vb-mark ${kind}`, style: `left: ${place(distance)}` }, words);
  const scale = node("div", { class: "vb-scale" },
    data.goal === null ? "" : mark(data.goal, "vb-goal", `first head ${px(data.goal)}`),
    node("div", { class: "vb-budget" }, kept, lost),
    mark(0, "vb-zero", "0"), mark(data.uniform, "vb-null", `uniform ${px(data.uniform)}`));
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function measure() {
    const { query, width, share, renormalize } = state;
    const sigma = data.widths[width] ?? Infinity, left = 1 - share / 100;
    const weights = gaussian(pixels, sigma, left);
    const published = attentionDistance(weights, pixels, false);
    const where = attentionDistance(weights, pixels, true);
    const alone = attentionDistance([weights[query]], [pixels[query]], renormalize);
    const [whole] = gaussian([pixels[query]], sigma, 1);
    const row = renormalize && left ? whole : weights[query];
    const distance = renormalize ? where : published;
    return { sigma, left, published, where, distance, alone, row, top: Math.max(...whole) };
  }

  function showRow({ left, alone, row, top }) {
    const { query, share, renormalize } = state;
    paint(map, rows, columns, (r, c) => color(row[r * columns + c], top));
    cells.choose(query);
    toToken.style.width = `${share}%`;
    toPatches.style.width = `${100 - share}%`;
    toToken.classList.toggle("vb-lost", renormalize);
    tokenName.textContent = `class token ${(share / 100).toFixed(2)}${renormalize ? ", cut" : ""}`;
    patchesName.textContent = `patches ${left.toFixed(2)}${renormalize && left ? " → 1" : ""}`;
    fromHere.textContent = `From this patch alone: ${px(alone)}`;
    colors.textContent =
      `Brightest: ${top.toPrecision(2)}, this head's peak with nothing on the class token`;
  }

  function showHead({ sigma, left, where, distance }) {
    const on = state.renormalize;
    wide.show(state.width, state.width === 0 ? "itself only" : state.width === widest
      ? "everywhere alike" : `σ = ${sigma.toFixed(sigma < 10 ? 1 : 0)} px`);
    share.show(state.share, `${state.share} %`);
    renormalize.setAttribute("aria-pressed", on);
    renormalize.classList.toggle("vb-pressed", on);
    if (on) looks.say(left ? "1" : "0/0", "weight on patches, renormalised");
    else looks.say(left.toFixed(2), "weight on patches");
    far.say(px(where), "how far that weight looks");
    result.say(px(distance), on ? "renormalised distance" : "published distance");
    kept.style.width = place(distance || 0);
    lost.style.width = place((where || 0) - (distance || 0));
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

  function update() {
    const found = measure(), { published, row, distance } = found;
    showRow(found);
    showHead(found);
    const near = Math.abs(published - data.goal) < data.uniform / 75; // a step of the slider
    const reached = data.goal !== null && state.share === 0 && near;
    readout.replaceChildren(words(found), !reached ? "" : node("strong", {},
      `✓ Reached: ${px(published)} from a head that looks near by. ` + (state.renormalize
        ? `Renormalised it stays; the first head goes to ${px(data.uniform)}.`
        : "Now renormalise it, and then the first head.")));
    Object.assign(root, { row, distance }); // for the console, and for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-meter" },
      node("div", {}, node("div", { class: "vb-label" }, "Click the patch that asks"), picture,
        node("div", { class: "vb-budget" }, toPatches, toToken),
        node("div", { class: "vb-ends" }, patchesName, tokenName), fromHere, colors),
      node("div", {},
        node("div", { class: "vb-label" }, `The head: all ${patches} patches ask like this one`),
        wide.element, share.element, node("div", { class: "vb-controls" }, renormalize, reset),
        node("div", { class: "vb-product" }, looks.element, node("span", {}, "×"), far.element,
          node("span", {}, "="), result.element),
        scale)),
    readout);
  update();
}
