import { node, stage, set, paint, bytes, grid, rgb } from "./shared.js";

/** The numbers of one layer: `value(image, channel, place)`. */
export function unpack({ codes, scale, shape: [channels, rows, columns] }) {
  const stored = new Int8Array(bytes(codes).buffer), places = rows * columns;
  return (image, channel, place) => {
    const code = stored[(image * channels + channel) * places + place];
    return Math.sign(code) * scale * (code / 127) ** 2;
  };
}

/** White at 0, one colour below and one above, along the square root. */
export function twoSided(stops) {
  const [below, zero, above] = stops.map(rgb);
  return (number, scale) => {
    const part = Math.sqrt(Math.min(Math.abs(number) / scale, 1)), end = number < 0 ? below : above;
    return zero.map((c, i) => c + part * (end[i] - c));
  };
}

/**
 * @param {HTMLElement} root
 * @param {{images: string[], height: number, width: number, colors: string[], task: string,
 *   layers: {model: string, name: string, shape: number[], scale: number, codes: string,
 *     dead: number[][], always: number[]}[],
 *   start: {image: number, layer: number, channel: number}}} data
 */
export function render(root, data) {
  const layers = data.layers.map((layer) => ({ ...layer, value: unpack(layer) }));
  const color = twoSided(data.colors), state = { ...data.start };
  const ratio = `aspect-ratio: ${data.width} / ${data.height}`;
  let asleep = new Set(), all = null, built = -1;
  const told = (number) => number.toFixed(2).replace("-", "−");
  const change = (part) => { Object.assign(state, part); update(); };

  const chooser = grid({
    rows: 1, columns: data.images.length, control: "image", label: "picture",
    name: (_, i) => `picture ${i + 1}`, pick: (_, image) => change({ image }),
  });
  chooser.element.classList.add("vb-chooser");
  chooser.cells.forEach((cell, i) => cell.append(node("img", { src: data.images[i], alt: "" })));

  const models = [...new Set(layers.map(({ model }) => model))];
  const select = node("select", {
    "data-control": "layer", "aria-label": "model and layer",
    onchange: () => change({ layer: Number(select.value), channel: 0 }),
  }, ...models.map((model) => node("optgroup", { label: model }, ...layers.flatMap((layer, i) =>
    layer.model === model ? [node("option", { value: i }, `${model}: ${layer.name}`)] : []))));
  const reset = node("button", {
    type: "button", "data-control": "reset",
    onclick: () => { asleep = new Set(); change(data.start); },
  }, "Reset");

  const image = node("img", { alt: "the picture", draggable: "false", style: ratio });
  const canvas = node("canvas", { "aria-hidden": "true" });
  const name = node("div", { class: "vb-label" }), holder = node("div");
  const scale = node("p", { class: "vb-note" });
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  function build({ shape: [channels] }) {
    const across = Math.ceil(Math.sqrt(channels));
    all = grid({
      rows: Math.ceil(channels / across), columns: across, control: "channel", label: "channel",
      name: (row, column) => `channel ${row * across + column + 1}`,
      pick: (row, column) => change({ channel: Math.min(row * across + column, channels - 1) }),
    });
    all.element.classList.add("vb-heads", "vb-channels");
    all.cells.forEach((cell, i) =>
      i < channels ? cell.append(node("canvas", { style: ratio })) : (cell.hidden = true));
    holder.replaceChildren(all.element);
  }

  function update() {
    const layer = layers[state.layer], [channels, rows, columns] = layer.shape;
    if (built !== state.layer) build(layer);
    built = state.layer;
    const draw = (target, channel) => paint(target, rows, columns, (r, c) =>
      color(layer.value(state.image, channel, r * columns + c), layer.scale));
    const dead = new Set(layer.dead[state.image]);
    all.cells.slice(0, channels).forEach((cell, i) => {
      draw(cell.firstChild, i);
      cell.classList.toggle("vb-dead", dead.has(i));
      set(cell, { "aria-label": `channel ${i + 1}${dead.has(i) ? ", dead on this picture" : ""}` });
    });
    draw(canvas, state.channel);
    all.choose(state.channel);
    chooser.choose(state.image);
    image.src = data.images[state.image];
    select.value = state.layer;
    name.textContent = `Channel ${state.channel + 1}`;
    scale.textContent = "White is 0, blue below, orange above; full colour at " +
      `${layer.scale.toPrecision(3)}, the layer's largest over all pictures.`;

    const key = `${state.layer} ${state.channel}`, here = dead.has(state.channel);
    if (here) asleep.add(key);
    const reached = !here && asleep.has(key);
    const values = Array.from({ length: rows * columns },
      (_, place) => layer.value(state.image, state.channel, place));
    readout.replaceChildren(
      `${layer.model}, ${layer.name}: ${dead.size} of ${channels} channels are dead on this ` +
      `picture, ${layer.always.length} on all ${data.images.length}. Channel ${state.channel + 1} ` +
      (here ? "is dead here. " : `goes from ${told(Math.min(...values))} to ` +
        `${told(Math.max(...values))}. `),
      !reached ? "" : node("strong", {}, "✓ Reached: dead on one picture, alive on this one. " +
        "Which models have such channels, and in which layers?"));
    root.map = values; // for the console, and for tests
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    chooser.element,
    node("div", { class: "vb-controls" }, select, reset),
    node("div", { class: "vb-trio", style: "--panels: 3" },
      node("div", {}, node("div", { class: "vb-label" }, "The picture"),
        node("div", { class: "vb-picture" }, image)),
      node("div", {}, name, node("div", { class: "vb-picture", style: ratio }, canvas)),
      node("div", { class: "vb-wide" },
        node("div", { class: "vb-label" }, "All channels: click one"), holder)),
    scale, readout);
  update();
}
