import { between, heat, paint, rgb, twoSided } from "../parts/paint.js";
import { cosines } from "../parts/pieces.js";
import { canvas, div, image, labelled, note } from "../parts/parts.js";

const signs = ["#0072B2", "#ffffff", "#D55E00"].map(rgb);

/** Where the class token looks, layer by layer, and what the first layer and the positions have become. */
export function insideOf(side, ramp) {
  const color = heat(ramp), maps = div("vb-layers"), filters = canvas(), alike = canvas(), mixed = canvas();
  const given = labelled("What the model is given", image(side, side, mixed));
  const likeness = labelled("Similarity of its position embeddings", image(1, 1, alike),
    note("cosines: orange is 1, white 0, blue −1; position 1 is top left, and four are a row. Before it learns only the diagonal is orange"));
  const learned = div("vb-pair", labelled("Its first layer: the filters", filters,
    note("ink where it is orange raises a number of the first layer, where it is blue lowers it")), likeness);

  /** What a run has told of a digit: its grey pixels, row by row. */
  function show(run, pixels) {
    const seen = run?.seen;
    learned.hidden = !seen;
    given.hidden = !seen?.places;
    looks.hidden = seen && !seen.maps.length;
    if (!seen) return maps.replaceChildren();
    const { kind, patch, width } = run.settings, grid = side / patch;
    if (seen.places) paint(mixed, side, side, (_, row, column) => {
      const from = seen.places[Math.floor(row / patch) * grid + Math.floor(column / patch)];
      return Array(3).fill(pixels[(Math.floor(from / grid) * patch + row % patch) * side + from % grid * patch + column % patch]);
    });
    maps.replaceChildren(...seen.maps.map((heads, layer) => {
      const mean = Array.from({ length: grid * grid }, (_, i) => heads.reduce((sum, head) => sum + head[i + 1], 0) / heads.length);
      const made = canvas(), top = Math.max(...mean, 2 / (grid * grid + 1));
      paint(made, grid, grid, (i) => color(mean[i], top));
      return labelled(`layer ${layer + 1}`, image(side, side, made));
    }));
    const kernel = kind === "resnet" ? 3 : patch, columns = seen.filters.length / kernel ** 2 / 4, cell = kernel + 1;
    const strongest = Math.max(...seen.filters.map(Math.abs)) || 1;
    paint(filters, 4 * cell - 1, columns * cell - 1, (_, row, column) => {
      if (row % cell === kernel || column % cell === kernel) return [0, 0, 0, 0];
      const filter = Math.floor(row / cell) * columns + Math.floor(column / cell);
      return between(signs, twoSided(seen.filters[(filter * kernel + row % cell) * kernel + column % cell], strongest));
    });
    const count = seen.table ? seen.table.length / width - 1 : 0;
    likeness.hidden = count < 2;
    if (count < 2) return;
    const places = seen.table.subarray(width);
    const likes = Array.from({ length: count }, (_, i) => cosines(places.subarray(i * width, (i + 1) * width), places));
    paint(alike, count, count, (_, i, j) => between(signs, twoSided(likes[i][j], 1)));
  }
  const looks = labelled("Where its class token looks", maps,
    note("the token that gives the answer: bright patches have much of its attention, mean of the heads"));
  return { looks: div(null, given, looks), learned, show };
}
