import { node, set } from "../parts/page.js";
import { between, paint, rgb, twoSided } from "../parts/paint.js";
import { bytes, signed } from "../parts/numbers.js";
import { canvas, div, grid, image, label, labelled, note, photo } from "../parts/parts.js";
import { live } from "../parts/live.js";

/** The numbers of one layer: `value(image, channel, place)`. */
export function unpack({ codes, scale, shape: [channels, rows, columns] }) {
  const stored = new Int8Array(bytes(codes).buffer), places = rows * columns;
  return (image, channel, place) => {
    const code = stored[(image * channels + channel) * places + place];
    return Math.sign(code) * scale * (code / 127) ** 2;
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
  const stops = data.colors.map(rgb);
  let all = null, built = -1;
  // `asleep` remembers the dead channels that the reader has seen.
  const figure = live(root, data, { ...data.start, asleep: [] }), { state, change } = figure;

  const names = data.images.map((_, i) => `image ${i + 1}`);
  const chooser = figure.chooser("image", "image", names, { face: (i) => photo(data.images[i]) });
  const models = [...new Set(layers.map(({ model }) => model))];
  const select = figure.select("layer", "model and layer",
    models.map((model) => [model, layers.flatMap((layer, i) =>
      layer.model === model ? [[i, `${model}: ${layer.name}`]] : [])]),
    { part: (layer) => ({ layer: Number(layer), channel: 0 }) });

  const still = photo(), map = canvas();
  still.alt = "the image";
  const name = label(), holder = node("div"), scale = note();

  /** A button for each channel of a layer, in a square. */
  function build({ shape: [channels] }) {
    const across = Math.ceil(Math.sqrt(channels));
    all = grid({
      rows: Math.ceil(channels / across), columns: across, control: "channel", label: "channel",
      name: (row, column) => `channel ${row * across + column + 1}`,
      pick: (row, column) => change({ channel: Math.min(row * across + column, channels - 1) }),
    });
    all.element.classList.add("vb-heads", "vb-channels");
    all.cells.forEach((cell, i) =>
      i < channels ? cell.append(node("canvas", { style: `aspect-ratio: ${data.width} / ${data.height}` })) : (cell.hidden = true));
    holder.replaceChildren(all.element);
  }

  function draw({ image, layer: index, channel, asleep }) {
    const layer = layers[index], [channels, rows, columns] = layer.shape;
    if (built !== index) build(layer);
    built = index;
    const show = (target, channel) => paint(target, rows, columns, (place) =>
      between(stops, twoSided(layer.value(image, channel, place), layer.scale, Math.sqrt)));
    const dead = new Set(layer.dead[image]);
    all.cells.slice(0, channels).forEach((cell, i) => {
      show(cell.firstChild, i);
      cell.classList.toggle("vb-dead", dead.has(i));
      set(cell, { "aria-label": `channel ${i + 1}${dead.has(i) ? ", dead on this image" : ""}` });
    });
    show(map, channel);
    all.choose(channel);
    still.src = data.images[image];
    name.textContent = `Channel ${channel + 1}`;
    scale.textContent = "White is 0, blue below, orange above; full colour at " +
      `${layer.scale.toPrecision(3)}, the layer's largest over all images.`;

    const key = `${index} ${channel}`, here = dead.has(channel);
    if (here) state.asleep = [...asleep, key];
    const values = Array.from({ length: rows * columns },
      (_, place) => layer.value(image, channel, place));
    return {
      says: `${layer.model}, ${layer.name}: ${dead.size} of ${channels} channels are dead on this ` +
        `image, ${layer.always.length} on all ${data.images.length}. Channel ${channel + 1} ` +
        (here ? "is dead here. " : `goes from ${signed(Math.min(...values))} to ` +
          `${signed(Math.max(...values))}. `),
      reached: !here && asleep.includes(key) && "dead on one image, alive on this one. " +
        "Which models have such channels, and in which layers?",
      told: { map: values }, named: { image, layer: index, channel },
    };
  }

  figure.stage(draw, chooser, div("vb-controls", select, figure.reset),
    node("div", { class: "vb-trio", style: "--panels: 3" },
      labelled("The image", div("vb-image", still)),
      node("div", {}, name, image(data.height, data.width, map)),
      div("vb-wide", label("All channels: click one"), holder)),
    scale);
}
