import { node, set } from "../parts/page.js";
import { argmax, inWords, signed } from "../parts/numbers.js";
import { paint } from "../parts/paint.js";
import { canvas, div, frame, image, photo } from "../parts/parts.js";
import { cosines } from "../parts/pieces.js";

/**
 * Photographs under the likeness of their tokens to the one that asks.
 * @param {{tokens: (photo: number) => ?{row: (i: number) => Int8Array, patches: Int8Array},
 *   known: (photo: number, query: number) => ?Float64Array[],
 *   pick: (photo: number, patch: number) => void, color: (part: number) => number[]}} ways
 */
export function likeness({ photos, names, grid: [rows, columns], height, width }, { tokens, known, pick, color }) {
  const tiles = photos.map(({ image: src }, i) => {
    const map = canvas(), found = frame(rows, columns), said = node("span");
    const element = node("button", { type: "button", class: "vb-tile" },
      image(height, width, photo(src), map, found.element), said);
    const tile = { element, map, found, said, best: 0 };
    set(element, { onclick: () => pick(i, tile.best) });
    return tile;
  });
  const draw = (map, cosine) => paint(map, rows, columns, (patch) => color(cosine[patch]));

  /** Draw all that is there, the asker's own photograph on `map`; say what is most alike. */
  function show(at, query, prefix, map) {
    const before = known(at, query), own = before ? null : tokens(at), asker = own?.row(query);
    let here = null, best = null, sum = 0, count = 0;
    tiles.forEach((tile, i) => {
      tile.element.hidden = i === at;
      const other = before ? null : tokens(i);
      if (!before && (!asker || !other)) return;
      const cosine = before ? before[i] : cosines(asker, other.patches), alike = [...cosine];
      if (i === at) {
        draw(map, cosine);
        if (query >= prefix) alike[query - prefix] = -1;
      } else draw(tile.map, cosine);
      tile.best = argmax(alike);
      const found = { photo: i, patch: tile.best, cosine: alike[tile.best] };
      tile.found.put(tile.best);
      tile.said.textContent = `${names[i]} ${signed(found.cosine)}`;
      set(tile.element, { "aria-label": `Ask from ${names[i]}, ${inWords(tile.best, columns)}, ` +
        `whose cosine is ${signed(found.cosine)}` });
      if (i === at) here = { ...found, all: [...cosine] };
      else {
        if (!best || found.cosine > best.cosine) best = found;
        for (const each of cosine) sum += each;
        count += cosine.length;
      }
    });
    return { here, best, mean: count ? sum / count : null };
  }
  return { show, element: div("vb-tiles", ...tiles.map(({ element }) => element)) };
}
