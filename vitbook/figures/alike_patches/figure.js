import { paint } from "../parts/paint.js";
import { argmax, bytes, clamp, inWords, place } from "../parts/numbers.js";
import { canvas, div, drag, frame, image, label, labelled, photo } from "../parts/parts.js";
import { node } from "../parts/page.js";
import { live } from "../parts/live.js";
import { cosines } from "../parts/pieces.js";
import { brightness } from "../parts/veil.js";

/**
 * @param {HTMLElement} root
 * @param {{photos: [string, string][], size: [number, number], grid: [number, number],
 *   components: number, tokens: string, colors: string, floor: number, darkest: number,
 *   start: {photo: number, patch: number}, task: string}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, patches = rows * columns, [height, width] = data.size;
  const levels = new Int8Array(bytes(data.tokens).buffer), colors = bytes(data.colors);
  // `shown` is the photograph on the stage, `photo` the one that was touched.
  const figure = live(root, data, { shown: data.start.photo, ...data.start });
  const names = data.photos.map(([name]) => name);

  const veils = names.map(() => canvas("vb-likeness")), veil = canvas("vb-likeness");
  const marks = names.map(() => frame(rows, columns));
  const face = (i) => div("vb-image", photo(data.photos[i][1]), veils[i], marks[i].element);
  const thumbs = figure.chooser("shown", "photograph", names, { face, kind: "vb-album" });
  const large = photo(data.photos[data.start.photo][1]), tokens = canvas();
  const name = label();
  const frames = [frame(rows, columns), frame(rows, columns)];
  const handles = [large, tokens].map((_, i) => node("button", {
    type: "button", class: "vb-touch", "data-control": i ? "token" : "patch",
    "aria-label": i ? "touched token; arrow keys move it" : "touched patch; arrow keys move it",
  }));

  let held = data.start.patch; // the framed patch of the photograph that is shown
  const touch = (across, down) => figure.change({
    photo: figure.state.shown,
    patch: clamp(Math.floor(down * rows), 0, rows - 1) * columns +
      clamp(Math.floor(across * columns), 0, columns - 1),
  });
  const walk = (down, right) => {
    const [row, column] = place(held, columns);
    touch((clamp(column + right, 0, columns - 1) + .5) / columns,
      (clamp(row + down, 0, rows - 1) + .5) / rows);
  };
  const surface = (i, ...under) => {
    const made = image(height, width, ...under, frames[i].element, handles[i]);
    drag(made, { handle: handles[i], move: touch, walk });
    return made;
  };

  function draw({ shown, photo, patch }) {
    const from = (photo * patches + patch) * data.components;
    const found = cosines(levels.subarray(from, from + data.components), levels);
    const show = (to, i) => paint(to, rows, columns, (cell) =>
      [0, 0, 0, Math.round(255 * data.darkest * (1 - brightness(found[i * patches + cell], data.floor)))]);
    veils.forEach(show);
    show(veil, shown);
    if (large.dataset.shown !== String(shown)) {
      large.src = data.photos[shown][1];
      large.dataset.shown = shown;
      name.textContent = names[shown];
      paint(tokens, rows, columns, (cell) => {
        const from = 3 * (shown * patches + cell);
        return colors.subarray(from, from + 3);
      });
    }
    // The most alike of the photograph that is shown, or of the nearest other one.
    const best = names.map((_, i) => argmax(found.subarray(i * patches, (i + 1) * patches)));
    const cosine = (i) => found[i * patches + best[i]];
    const others = names.map((_, i) => i).filter((i) => i !== photo).sort((a, b) => cosine(b) - cosine(a));
    const other = shown === photo ? others[0] : shown;
    const framed = { [other]: best[other], [photo]: patch };
    marks.forEach((mark, i) => mark.put(framed[i] ?? -1));
    frames.forEach((each) => each.put(framed[shown]));
    held = framed[shown];
    const [row, column] = place(held, columns);
    handles.forEach((handle) => Object.assign(handle.style, {
      left: `${100 * column / columns}%`, top: `${100 * row / rows}%`,
      width: `${100 / columns}%`, height: `${100 / rows}%`,
    }));
    const says = `Touched: ${names[photo]}, ${inWords(patch, columns)}.` + (other === undefined ? ""
      : ` Most similar in the ${names[other]}: ${inWords(best[other], columns)}, cosine ${cosine(other).toFixed(2)}.`);
    return { says, told: { cosines: Array.from(found) }, named: { shown, photo, patch } };
  }

  figure.stage(draw,
    div("vb-pair vb-touched",
      div("", name, surface(0, large, veil)),
      labelled("What its tokens say", surface(1, tokens))),
    thumbs,
    div("vb-controls", figure.reset));
}
