import { node, stage, heat, paint, grid, bytes } from "./shared.js";

const MOST_TENTHS = 300; // of a degree: the slider's end
const GREY = 127.5; // beyond the picture: zero, once pictures are normalised

/** The views' angles in radians, or their shifts in pixels, the picture itself first. */
export function views(tokenizer, degrees, patch) {
  if (tokenizer === "plain") return [{ angle: 0, shift: [0, 0] }];
  if (tokenizer === "rotated") {
    const angle = degrees * Math.PI / 180;
    return [0, angle, -angle].map((angle) => ({ angle, shift: [0, 0] }));
  }
  const half = Math.floor(patch / 2);
  return [[0, 0], [-half, -half], [-half, half], [half, -half], [half, half]]
    .map((shift) => ({ angle: 0, shift }));
}

/** Where a view's pixel (row, column) comes from in the picture, between its pixels. */
export function source({ angle, shift }, [height, width], row, column) {
  const down = row - (height - 1) / 2, across = column - (width - 1) / 2;
  const cos = Math.cos(angle), sin = Math.sin(angle);
  return [sin * across + cos * down + (height - 1) / 2 + shift[0],
    cos * across - sin * down + (width - 1) / 2 + shift[1]];
}

/** The pixels inside the picture that a bilinear reading at a place takes in, with their weights. */
export function taken([y, x], [height, width]) {
  const top = Math.floor(y + 1e-9), left = Math.floor(x + 1e-9), found = [];
  for (const [row, part] of [[top, top + 1 - y], [top + 1, y - top]]) {
    for (const [column, share] of [[left, left + 1 - x], [left + 1, x - left]]) {
      const weight = part * share;
      if (weight > 1e-9 && row >= 0 && row < height && column >= 0 && column < width) {
        found.push([row * width + column, weight]);
      }
    }
  }
  return found;
}

/** What one token sees: the set of pixels, and the share of its views' places off the picture. */
export function footprint(list, size, patch, row, column) {
  const seen = new Set();
  let lost = 0;
  for (const [i, view] of list.entries()) {
    for (let y = row * patch; y < (row + 1) * patch; y++) {
      for (let x = column * patch; x < (column + 1) * patch; x++) {
        const place = source(view, size, y, x);
        taken(place, size).forEach(([pixel]) => seen.add(pixel));
        if (i && place.some((v, axis) => v < -0.5 || v > size[axis] - 0.5)) lost += 1;
      }
    }
  }
  const readings = (list.length - 1) * patch * patch;
  return { seen, lost: readings ? lost / readings : 0 };
}

/**
 * @param {HTMLElement} root
 * @param {{pixels: string, size: [number, number], channels: number, patch: number,
 *   token: number, tokenizer: string, tenths: number, usual: [number, number],
 *   names: Record<string, string>, ramp: string[], colors: string[], task: string}} data
 */
export function render(root, data) {
  const { size, patch, channels } = data, [height, width] = size;
  const rows = height / patch, columns = width / patch;
  const raw = bytes(data.pixels), color = heat(data.ramp);
  const start = { token: data.token, tokenizer: data.tokenizer, tenths: data.tenths };
  const state = { ...start };
  const change = (part) => { Object.assign(state, part); update(); };
  const at = (pixel) => channels === 1 ? [raw[pixel], raw[pixel], raw[pixel]]
    : [0, 1, 2].map((channel) => raw[channel * height * width + pixel]);

  const picture = node("canvas", { "aria-hidden": "true" });
  const outlines = node("svg:svg", {
    class: "vb-outlines", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true",
  });
  const map = node("canvas", { "aria-hidden": "true" });
  const cells = grid({
    rows, columns, control: "token", label: "token",
    name: (row, column) => `token in row ${row + 1}, column ${column + 1}`,
    pick: (row, column) => change({ token: row * columns + column }),
  });
  const ratio = `aspect-ratio: ${width} / ${height}`;
  const scale = node("p", { class: "vb-note" });
  const strip = node("div", { class: "vb-strip" }), told = node("p", { class: "vb-note" });

  const chooser = node("select", {
    "data-control": "tokenizer", "aria-label": "tokenizer",
    onchange: () => change({ tokenizer: chooser.value }),
  }, ...Object.entries(data.names).map(([value, name]) => node("option", { value }, name)));
  const amount = node("span", { class: "vb-amount" });
  const slider = node("input", {
    type: "range", min: 0, max: MOST_TENTHS, step: 1, "data-control": "angle",
    "aria-label": "angle in tenths of a degree",
    oninput: () => change({ tenths: Number(slider.value), tokenizer: "rotated" }),
  });
  const reset = node("button", {
    type: "button", "data-control": "reset", onclick: () => change(start),
  }, "Reset");
  const readout = node("p", { class: "vb-readout", "aria-live": "polite" });

  /** A square of the view, drawn where its pixels come from. */
  function outline(view, color, row, column) {
    const corners = [[0, 0], [0, patch], [patch, patch], [patch, 0]].map(([down, across]) => {
      const edge = [row * patch + down - 0.5, column * patch + across - 0.5];
      const [y, x] = source(view, size, ...edge);
      return `${x + 0.5},${y + 0.5}`;
    }).join(" ");
    return ["#000", color].map((stroke, i) => node("svg:polygon", {
      points: corners, fill: "none", stroke, "stroke-width": (i ? 0.008 : 0.018) * width,
    }));
  }

  function showViews(list, row, column) {
    strip.style.setProperty("--panels", list.length);
    strip.replaceChildren(...list.map((view, i) => {
      const canvas = node("canvas", { "aria-hidden": "true" });
      paint(canvas, height, width, (r, c) => {
        const found = taken(source(view, size, r, c), size), mixed = [0, 0, 0];
        let rest = 1;
        for (const [pixel, weight] of found) {
          at(pixel).forEach((value, k) => (mixed[k] += weight * value));
          rest -= weight;
        }
        return mixed.map((value) => value + rest * GREY);
      });
      const frame = node("i", { class: "vb-asked", style:
        `left: ${100 * column / columns}%; top: ${100 * row / rows}%; ` +
        `width: ${100 / columns}%; height: ${100 / rows}%` });
      const [down, across] = view.shift;
      const name = i === 0 ? "the picture" : view.angle
        ? `turned ${view.angle > 0 ? "+" : "−"}${(state.tenths / 10).toFixed(1)}°`
        : state.tokenizer === "rotated" ? "not turned"
          : `shifted ${across < 0 ? "right" : "left"}, ${down < 0 ? "down" : "up"}`;
      return node("div", {}, node("div", { class: "vb-picture", style: ratio }, canvas, frame),
        node("div", { class: "vb-view", style: `--color: ${data.colors[i]}` }, name));
    }));
  }

  function update() {
    const { token, tokenizer, tenths } = state;
    const row = Math.floor(token / columns), column = token % columns;
    const list = views(tokenizer, tenths / 10, patch);
    const found = Array.from({ length: rows * columns }, (_, i) =>
      footprint(list, size, patch, Math.floor(i / columns), i % columns));
    const counts = found.map(({ seen }) => seen.size);
    const { seen, lost } = found[token], most = Math.max(...counts), least = Math.min(...counts);

    paint(picture, height, width, (r, c) => {
      const pixel = r * width + c, rgb = at(pixel);
      return seen.has(pixel) ? rgb : rgb.map((value) => 0.3 * value);
    });
    outlines.replaceChildren(...list.flatMap((view, i) =>
      outline(view, data.colors[i], row, column)));
    const gain = counts.map((count) => (count / (patch * patch) - 1) / 3);
    paint(map, rows, columns, (r, c) => color(gain[r * columns + c] ** 2, 1));
    cells.choose(token);
    cells.cells.forEach((cell, i) => {
      cell.textContent = counts[i];
      cell.style.color = gain[i] > 0.55 ? "#000" : "#fff";
    });
    scale.textContent = `From ${least} to ${most} pixels. A plain token sees ${patch * patch}.`;
    showViews(list, row, column);
    told.textContent = `${list.length} × ${channels} = ${list.length * channels} channels: a token ` +
      `is made from ${list.length * channels} × ${patch * patch} = ` +
      `${list.length * channels * patch * patch} numbers.`;
    chooser.value = tokenizer;
    slider.value = tenths;
    const [low, high] = data.usual;
    const usual = tenths >= low && tenths <= high ? ", in the poster's range" : "";
    amount.textContent = `${(tenths / 10).toFixed(1)}°${usual}`;
    slider.setAttribute("aria-valuetext", amount.textContent);

    const corner = (row === 0 || row === rows - 1) && (column === 0 || column === columns - 1);
    const reached = tokenizer === "rotated" && tenths > 0 && corner && seen.size === patch * patch;
    const outside = tokenizer === "plain" ? "" :
      ` Of what its ${tokenizer === "rotated" ? "turned" : "shifted"} views read here, ` +
      `${Math.round(100 * lost)} % lies outside the picture.`;
    readout.replaceChildren(
      `Row ${row + 1}, column ${column + 1} sees ${seen.size} pixels.${outside} `,
      !reached ? "" : node("strong", {},
        "✓ Reached: turned this far, the copies show this corner nothing of the picture."));
    Object.assign(root, { counts, seen: [...seen].sort((a, b) => a - b), lost });
    root.dataset.state = Object.entries(state).map((pair) => pair.join("=")).join(" ");
    root.dataset.reached = reached;
  }

  stage(root,
    data.task ? node("p", { class: "vb-task" }, data.task) : "",
    node("div", { class: "vb-controls" },
      node("label", { class: "vb-slider" }, node("span", {}, "Angle"), slider, amount),
      chooser, reset),
    node("div", { class: "vb-pair vb-footprint" },
      node("div", {}, node("div", { class: "vb-label" }, "What the token sees, bright"),
        node("div", { class: "vb-picture", style: ratio }, picture, outlines)),
      node("div", {}, node("div", { class: "vb-label" }, "Pixels a token sees: click one"),
        node("div", { class: "vb-picture vb-counts", style: ratio }, map, cells.element), scale)),
    node("div", { class: "vb-label vb-where" }, "The views, and the token's square in each"),
    strip, told, readout);
  update();
}
