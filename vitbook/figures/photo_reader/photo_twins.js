import { argmax } from "../parts/numbers.js";
import { cosines } from "../parts/pieces.js";
import { brightness } from "../parts/veil.js";
import { layerPanel, showPlanes, veil } from "./photo_looks.js";

const FLOOR = .3; // cosines up to this one leave a patch dark

/** The tokens of the patches alone, of all that a layer gives. */
export const patchTokens = ({ data, dims: [, count, width] }, patches) => ({ width, rows: data.subarray((count - patches) * width) });

/** How alike a patch is to those of another photograph: cosines of tokens, less the mean of both. */
export function twinCosines(own, patch, others) {
  const { width } = own, all = [own.rows, others.rows], count = (own.rows.length + others.rows.length) / width;
  const mean = new Float64Array(width);
  for (const rows of all) rows.forEach((value, at) => { mean[at % width] += value / count; });
  // Rounded as the tokens are, or what is left of tokens that are all one is no zero.
  const less = (rows) => Float64Array.from(rows, (value, at) => value - Math.fround(mean[at % width]));
  return cosines(less(own.rows.subarray(patch * width, (patch + 1) * width)), less(others.rows));
}

/** The patch that is most alike; null where none is, or where no cosine is a number. */
export function twinOf(alike) {
  const best = argmax(alike);
  return alike[best] > 0 ? best : null;
}

/** A photograph that was kept, and in it the twin of a patch of another one. */
export function twinLook() {
  const { under, over, words, element, mark } = layerPanel();
  let kept = null;
  element.hidden = true;

  /** Keep what the model says of a photograph as it came. */
  const keep = ({ clean, manifest, photo, planes, size, grid }) => {
    const names = manifest.layers.map(({ tokens }) => tokens).filter(Boolean);
    const tokens = Object.fromEntries(names.map((name) => [name, patchTokens(clean.outputs[name], grid[0] * grid[1])]));
    kept = { tokens, photo, planes, size, grid, manifest };
  };

  /** @returns what is told of the twin; null without one */
  function draw({ kept: asked, found, manifest, photo, grid, layer, patch }) {
    const name = manifest.layers[layer - 1]?.tokens;
    element.hidden = !asked || !name || kept?.manifest !== manifest;
    if (element.hidden) return null;
    const alike = twinCosines(patchTokens(found.outputs[name], grid[0] * grid[1]), patch, kept.tokens[name]), best = twinOf(alike);
    element.hidden = best === null;
    if (element.hidden) return null;
    showPlanes(under, kept.planes, kept.size);
    veil(over, ...kept.grid, (i) => brightness(alike[i], FLOOR));
    mark(kept.grid, best);
    words.textContent = `Its twin in the photograph that you kept, layer ${layer}`;
    return { best, cosine: alike[best], columns: kept.grid[1], same: kept.photo === photo };
  }
  return { keep, draw, element };
}
