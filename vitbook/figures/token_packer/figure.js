import { node, set } from "../parts/page.js";
import { clamp } from "../parts/numbers.js";
import { div, drag, image, label, labelled, term, word } from "../parts/parts.js";
import { live } from "../parts/live.js";

const LINE = 22, WIDE = 460, GAP = 5; // of the drawing of sequences

/** Multiply-adds of a ViT on so many patches of a colour image; its class token included. */
export function macs(tokens, patch, [width, depth, mlp]) {
  const every = tokens + 1;
  return tokens * 3 * patch ** 2 * width + every * depth * (4 * width ** 2 + 2 * width * mlp) +
    2 * depth * every ** 2 * width;
}

/** First fit: each image into the first sequence that has room for it. */
export function packed(lengths, most) {
  const sequences = [], room = [];
  lengths.forEach((length, i) => {
    let place = room.findIndex((free) => free >= length);
    if (place < 0) {
      place = room.length;
      sequences.push([]);
      room.push(most);
    }
    sequences[place].push(i);
    room[place] -= length;
  });
  return sequences;
}

const number = (count) => count.toLocaleString("en-US");
const billions = (count) => (count / 1e9).toFixed(1);

/**
 * @param {HTMLElement} root
 * @param {{image: string, sizes: [number, number][], size: [number, number], side: number,
 *   patches: number[], body: [number, number, number], colors: [string, string], long: number,
 *   goal: ?number, task: string}} data
 */
export function render(root, data) {
  const { side, patches, sizes } = data, step = Math.max(...patches);
  const figure = live(root, data,
    { rows: data.size[0] / step, columns: data.size[1] / step, patch: 0, packed: 0 });
  const { change } = figure, cells = side / step;
  const kept = (value) => clamp(Math.round(value), 1, cells);

  const seen = node("svg:image", { href: data.image, preserveAspectRatio: "xMidYMid slice" });
  const lines = node("svg:path", { class: "vb-cuts" });
  const edge = node("svg:rect", { class: "vb-edge", fill: "none" });
  const near = node("svg:rect", { width: 0.15 * side, height: 0.15 * side, fill: "transparent" });
  const dot = node("svg:circle", { r: 0.026 * side, class: "vb-ring", fill: data.colors[0] });
  const handle = node("svg:g", {
    class: "vb-handle", tabindex: 0, role: "slider", "data-control": "frame",
    "aria-label": "corner of the photograph; the arrow keys move it", "aria-valuemin": 1,
    "aria-valuemax": cells * cells,
  }, near, dot);
  const room = 0.03 * side; // beyond the largest square, for the handle
  const plane = node("svg:svg", { viewBox: `0 0 ${side + room} ${side + room}`, class: "vb-plane" },
    node("svg:rect", { width: side, height: side, class: "vb-ground" }), seen, lines, edge, handle);
  const all = (side + room) / step;
  drag(plane, {
    handle,
    move: (across, down) => change({ columns: kept(across * all), rows: kept(down * all) }),
    walk: (down, right) => change({
      rows: kept(figure.state.rows + down), columns: kept(figure.state.columns + right),
    }),
  });

  const count = sizes.length + 1, high = count * LINE;
  const board = node("svg:svg", { viewBox: `0 0 ${WIDE} ${high}`, "aria-hidden": "true" });
  const terms = [term("tokens"), term("billion multiply-adds"), term("of all tokens empty")];

  /** A line for every sequence of so many tokens, its photographs side by side. */
  function showSequences(sequences, lengths, most, widest) {
    const scale = WIDE / widest;
    board.replaceChildren(...sequences.flatMap((images, line) => {
      const y = line * LINE;
      let x = 0;
      return [
        node("svg:rect", { x: 0, y, width: scale * most, height: LINE - GAP, class: "vb-empty" }),
        ...images.flatMap((i) => {
          const width = scale * lengths[i];
          const bar = node("svg:rect", { x, y, width, height: LINE - GAP, fill: data.colors[i ? 1 : 0],
            class: "vb-bar-edge" });
          x += width;
          return i || width < 52 ? [bar]
            : [bar, word({ x: x - width + 5, y: y + 13.5, class: "vb-yours" }, "yours")];
        }),
      ];
    }));
  }

  function draw({ rows, columns, patch: index, packed: tight }) {
    const patch = patches[index], fine = step / patch;
    const width = columns * step, height = rows * step;
    const lengths = [[height, width], ...sizes].map(([h, w]) =>
      Math.floor(h / patch) * Math.floor(w / patch));
    const longest = Math.max(...lengths), widest = data.long * longest;
    const most = tight ? widest : longest;
    const sequences = tight ? packed(lengths, most) : lengths.map((_, i) => [i]);
    const sum = lengths.reduce((a, b) => a + b), empty = 1 - sum / (sequences.length * most);
    const cost = macs(lengths[0], patch, data.body);

    for (const each of [seen, edge]) set(each, { x: 0, y: 0, width, height });
    const across = Array.from({ length: rows * fine - 1 }, (_, i) => `M0 ${(i + 1) * patch}H${width}`);
    const down = Array.from({ length: columns * fine - 1 }, (_, i) => `M${(i + 1) * patch} 0V${height}`);
    set(lines, { d: [...across, ...down].join("") });
    set(near, { x: width - 0.075 * side, y: height - 0.075 * side });
    set(dot, { cx: width, cy: height });
    set(handle, { "aria-valuenow": (rows - 1) * cells + columns,
      "aria-valuetext": `${height} by ${width} pixels, ${lengths[0]} tokens` });
    showSequences(sequences, lengths, most, widest);
    terms[0].say(number(lengths[0]), `tokens: ${rows * fine} × ${columns * fine}`);
    terms[1].say(billions(cost));
    terms[2].say(`${Math.round(100 * empty)} %`);
    return {
      says: `${count} photographs have ${number(sum)} tokens and take ${sequences.length} sequences ` +
        `of ${number(most)}. `,
      reached: data.goal !== null && 100 * empty <= data.goal &&
        `at most ${data.goal} % of the tokens are empty.`,
      told: { lengths, sequences, empty, macs: cost },
    };
  }

  figure.stage(draw,
    div("vb-pair",
      labelled("Drag the corner of the photograph", image(1, 1, plane)),
      div("", label(`${count} photographs in sequences`),
        figure.chooser("packed", "how photographs become sequences", ["padded", "packed"],
          { face: (i) => ["padded", "packed"][i], kind: "vb-choice" }), board)),
    div("vb-terms", ...terms.map(({ element }) => element)),
    div("vb-controls",
      figure.select("patch", "pixels of a patch", patches.map((p, i) => [i, `patches of ${p} pixels`]),
        { part: (value) => ({ patch: Number(value) }) }), figure.reset));
}
