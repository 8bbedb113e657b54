import { load } from "./page.js";
import { bytes } from "./numbers.js";

/** Words of two bytes, all high bytes before all low ones. */
const words = (raw, count) => (i) => 256 * raw[i] + raw[count + i];

/**
 * A layer as Python packed it: `step` and `row` give a weight as `step * code`.
 * @param {Uint8Array} raw
 * @param {{heads: number, queries: number, prefix: number, unit: number, share: number,
 *   octave: number, patches: number}} shape
 */
export function unpack(raw, { heads, queries, patches, prefix, unit, share, octave }) {
  const rows = heads * queries, each = 2 * rows;
  const at = (head, query) => head * queries + query;
  const steps = words(raw, rows), far = words(raw.subarray(each), rows);
  const first = words(raw.subarray(2 * each), rows);
  const codes = raw.subarray((prefix ? 3 : 2) * each);
  return {
    row: (head, query) => codes.subarray(at(head, query) * patches, (at(head, query) + 1) * patches),
    step: (head, query) => 2 ** (-steps(at(head, query)) / octave),
    far: (head, query) => unit * far(at(head, query)),
    first: (head, query) => prefix ? share * first(at(head, query)) : 0,
  };
}

/** How alike a token is to each of these, as cosines; a token is a row of whole numbers. */
export function cosines(token, tokens) {
  const width = token.length, length = Math.hypot(...token);
  return Float64Array.from({ length: tokens.length / width }, (_, i) => {
    let dot = 0, square = 0;
    for (let j = 0, at = i * width; j < width; j++, at++) {
      dot += token[j] * tokens[at];
      square += tokens[at] * tokens[at];
    }
    return dot / (length * Math.sqrt(square) || 1);
  });
}

export async function inflate(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * What a figure holds in pieces, each fetched once, when it is asked for: `ask(key, open)` gives
 * what `open` made of the piece, or nothing until it is there, and then calls `arrived`.
 */
export function shelf(root, arrived, failed) {
  const kept = new Map();
  return (key, open) => {
    if (!kept.has(key)) {
      kept.set(key, null);
      const block = root.querySelector(`.vb-piece[data-key="${key}"]`), { src } = block.dataset;
      const take = (text) => inflate(text).then(
        (raw) => (kept.set(key, open(raw)), arrived()), (error) => failed(error.message));
      if (block.textContent.trim()) take(JSON.parse(block.textContent));
      else load(key, src, take, failed);
    }
    return kept.get(key);
  };
}
