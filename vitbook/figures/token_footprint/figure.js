import { node } from "../parts/page.js";
import { heat, paint } from "../parts/paint.js";
import { bytes, inWords, place } from "../parts/numbers.js";
import { canvas, div, frame, image, labelled, note } from "../parts/parts.js";
import { live } from "../parts/live.js";

const MOST_TENTHS = 300; // of a degree: the slider's end
const GREY = 127.5; // beyond the image: zero, once images are normalised

/** The views' angles in radians, or their shifts in pixels, the image itself first. */
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

/** Where a view's pixel (row, column) comes from in the image, between its pixels. */
export function source({ angle, shift }, [height, width], row, column) {
  const down = row - (height - 1) / 2, across = column - (width - 1) / 2;
  const cos = Math.cos(angle), sin = Math.sin(angle);
  return [sin * across + cos * down + (height - 1) / 2 + shift[0],
    cos * across - sin * down + (width - 1) / 2 + shift[1]];
}

/** The pixels inside the image that a bilinear reading at a place takes in, with their weights. */
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

/** What one token sees: the set of pixels, and the share of its views' places off the image. */
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
  const figure = live(root, data,
    { token: data.token, tokenizer: data.tokenizer, tenths: data.tenths }), { state } = figure;
  const at = (pixel) => channels === 1 ? [raw[pixel], raw[pixel], raw[pixel]]
    : [0, 1, 2].map((channel) => raw[channel * height * width + pixel]);

  const lit = canvas(), map = canvas();
  const outlines = node("svg:svg", {
    class: "vb-outlines", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true",
  });
  const cells = figure.cells("token", rows, columns, { what: "token", label: "token" });
  const counted = image(height, width, map, cells.element);
  counted.classList.add("vb-counts");
  const scale = note(), strip = div("vb-strip"), told = note();

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

  const naming = ({ angle, shift: [down, across] }, i) => i === 0 ? "the image" : angle
    ? `turned ${angle > 0 ? "+" : "−"}${(state.tenths / 10).toFixed(1)}°`
    : state.tokenizer === "rotated" ? "not turned"
      : `shifted ${across < 0 ? "right" : "left"}, ${down < 0 ? "down" : "up"}`;

  function showViews(list) {
    strip.style.setProperty("--panels", list.length);
    strip.replaceChildren(...list.map((view, i) => {
      const read = canvas(), asked = frame(rows, columns);
      paint(read, height, width, (_, r, c) => {
        const mixed = [0, 0, 0];
        let rest = 1;
        for (const [pixel, weight] of taken(source(view, size, r, c), size)) {
          at(pixel).forEach((value, k) => (mixed[k] += weight * value));
          rest -= weight;
        }
        return mixed.map((value) => value + rest * GREY);
      });
      asked.put(state.token);
      return node("div", {}, image(height, width, read, asked.element),
        node("div", { class: "vb-view", style: `--color: ${data.colors[i]}` }, naming(view, i)));
    }));
  }

  function draw({ token, tokenizer, tenths }) {
    const [row, column] = place(token, columns), list = views(tokenizer, tenths / 10, patch);
    const found = Array.from({ length: rows * columns }, (_, i) =>
      footprint(list, size, patch, ...place(i, columns)));
    const counts = found.map(({ seen }) => seen.size);
    const { seen, lost } = found[token], most = Math.max(...counts), least = Math.min(...counts);

    paint(lit, height, width, (pixel) =>
      at(pixel).map((value) => (seen.has(pixel) ? 1 : 0.3) * value));
    outlines.replaceChildren(...list.flatMap((view, i) =>
      outline(view, data.colors[i], row, column)));
    const gain = counts.map((count) => (count / (patch * patch) - 1) / 3);
    paint(map, rows, columns, (cell) => color(gain[cell] ** 2, 1));
    cells.cells.forEach((cell, i) => {
      cell.textContent = counts[i];
      cell.style.color = gain[i] > 0.55 ? "#000" : "#fff";
    });
    scale.textContent = `From ${least} to ${most} pixels. A plain token sees ${patch * patch}.`;
    showViews(list);
    told.textContent = `${list.length} × ${channels} = ${list.length * channels} channels: a token ` +
      `is made from ${list.length * channels} × ${patch * patch} = ` +
      `${list.length * channels * patch * patch} numbers.`;

    const corner = (row === 0 || row === rows - 1) && (column === 0 || column === columns - 1);
    const outside = tokenizer === "plain" ? "" :
      ` Of what its ${tokenizer === "rotated" ? "turned" : "shifted"} views read here, ` +
      `${Math.round(100 * lost)} % lies outside the image.`;
    return {
      says: `R${inWords(token, columns).slice(1)} sees ${seen.size} pixels.${outside} `,
      reached: tokenizer === "rotated" && tenths > 0 && corner && seen.size === patch * patch &&
        "turned this far, the copies show this corner nothing of the image.",
      told: { counts, seen: [...seen].sort((a, b) => a - b), lost },
    };
  }

  const [low, high] = data.usual;
  figure.stage(draw,
    div("vb-controls",
      figure.slider("angle", "Angle", {
        max: MOST_TENTHS, at: () => state.tenths,
        part: (tenths) => ({ tenths, tokenizer: "rotated" }),
        tell: (tenths) => `${(tenths / 10).toFixed(1)}°` +
          (tenths >= low && tenths <= high ? ", in the poster's range" : ""),
        "aria-label": "angle in tenths of a degree",
      }),
      figure.select("tokenizer", "tokenizer", Object.entries(data.names)), figure.reset),
    div("vb-pair vb-footprint",
      labelled("What the token sees, bright", image(height, width, lit, outlines)),
      labelled("Pixels a token sees: click one", counted, scale)),
    div("vb-label vb-where", "The views, and the token's square in each"), strip, told);
}
