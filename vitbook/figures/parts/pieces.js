import { loadData } from "./page.js";
import { bytes } from "./numbers.js";

/** Words of two bytes, all high bytes before all low ones. */
const words = (raw, count) => (i) => 256 * raw[i] + raw[count + i];

const CONTEXTS = 85; // as in packing.py

/** Codes in their places: each was stored beside those in whose neighbourhood codes are as large. */
export function unsort(stored, counts, { heads, queries, patches, columns }) {
  const codes = new Uint8Array(stored.length), next = new Uint32Array(CONTEXTS);
  for (let i = 1; i < CONTEXTS; i++) next[i] = next[i - 1] + counts[i - 1];
  const context = Uint8Array.from({ length: 7 * 255 + 1 }, (_, sum) => Math.floor(2 * Math.sqrt(sum)));
  const above = columns * patches, corner = above + patches;
  for (let head = 0, i = 0; head < heads; head++) {
    for (let query = 0; query < queries; query++) {
      for (let patch = 0; patch < patches; patch++, i++) {
        let sum = patch ? codes[i - 1] : 0;
        if (patch >= columns) sum += codes[i - columns];
        if (query) sum += 2 * codes[i - patches];
        if (query >= columns) sum += 2 * codes[i - above];
        if (query > columns) sum += codes[i - corner];
        codes[i] = stored[next[context[sum]]++];
      }
    }
  }
  return codes;
}

/**
 * A layer as Python packed it: `step` and `row` give a weight as `step * code`.
 * @param {Uint8Array} raw
 * @param {{heads: number, queries: number, patches: number, columns: number, prefix: number,
 *   unit: number, share: number, octave: number}} shape
 */
export function unpack(raw, shape) {
  const { heads, queries, patches, prefix, unit, share, octave } = shape;
  const rows = heads * queries, each = 2 * rows, from = (prefix ? 3 : 2) * each;
  const at = (head, query) => head * queries + query;
  const steps = words(raw, rows), far = words(raw.subarray(each), rows);
  const first = words(raw.subarray(2 * each), rows);
  const view = new DataView(raw.buffer, raw.byteOffset + from, 4 * CONTEXTS);
  const counts = Array.from({ length: CONTEXTS }, (_, i) => view.getUint32(4 * i));
  const codes = unsort(raw.subarray(from + 4 * CONTEXTS), counts, shape);
  return {
    row: (head, query) => codes.subarray(at(head, query) * patches, (at(head, query) + 1) * patches),
    step: (head, query) => 2 ** (-steps(at(head, query)) / octave),
    far: (head, query) => unit * far(at(head, query)),
    first: (head, query) => prefix ? share * first(at(head, query)) : 0,
  };
}

/** Tokens as rows of whole numbers; stored are all first numbers, then all second ones ... */
export function turned(raw, tokens) {
  const width = raw.length / tokens;
  return Int8Array.from({ length: raw.length }, (_, i) =>
    (raw[(i % width) * tokens + Math.floor(i / width)] << 24) >> 24);
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

export async function inflated(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
export const inflate = (text) => inflated(bytes(text));

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
      else loadData(key, src, take, failed);
    }
    return kept.get(key);
  };
}

/** What a figure says whose model, or what else it fetches, did not come. */
export const notFetched = (reason, what = "model") => "DecompressionStream" in window
  ? `The ${what} could not be fetched (${reason}): start \`make serve\` and open the book there.`
  : `This browser cannot unpack the ${what}: a newer one can.`;
