import { CHANGES } from "./run.js";

/** A shelf in the browser's store for what one figure keeps; without a store it keeps nothing and says so. */
export function shelved(key) {
  const open = () => new Promise((resolve, reject) => {
    const asked = indexedDB.open("vitbook-learn", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("runs");
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
  const act = async (mode, of) => {
    const base = await open();
    try {
      return await new Promise((resolve, reject) => {
        const asked = of(base.transaction("runs", mode).objectStore("runs"));
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = () => reject(asked.error);
      });
    } finally {
      base.close();
    }
  };
  return {
    get: () => act("readonly", (shelf) => shelf.get(key)).catch(() => null),
    put: (value) => act("readwrite", (shelf) => shelf.put(value, key)).then(() => true, () => false),
  };
}

/** Whether what was kept is a run of this page: by an older or another page, or damaged, it is not. */
export function isRun(kept, sizes, steps) {
  const known = (kind) => kind === "none" || Object.hasOwn(CHANGES, kind);
  return Boolean(kept) && Object.hasOwn(sizes, kept.size) && known(kept.change) && [0, 1, 2, 3, 4].includes(kept.seed) &&
    Array.isArray(kept.runs) && kept.runs.length > 0 && kept.runs.length < 3 && kept.runs.every(({ kind, told, state }) =>
    known(kind) && state?.step >= 0 && state.step <= steps && Array.isArray(told) &&
    told.every((each) => each?.answers && each.step >= 0 && each.accuracy >= 0 && each.seconds >= 0));
}

/** The library's name of a model, or nothing where it has none. */
export function nameOf(size, { positions, post, patch, side }) {
  if (patch === side || (post && !positions)) return null;
  return `vit_${post ? "postnorm_" : positions ? "" : "nopos_"}${size}_patch${patch}_${side}`;
}

/**
 * A model as a checkpoint of the library: safetensors, with what it takes to build it again. Patches in another order
 * are the same as positions in the order turned back: so it is written, and reads patches as they stand.
 */
export function asFile({ shapes, values, places, classes, side, settings, size, about }) {
  const stored = values.slice(), name = nameOf(size, settings), header = {}, width = settings.width;
  let at = 0;
  for (const [key, shape] of shapes) {
    const count = shape.reduce((a, b) => a * b, 1);
    header[key] = { dtype: "F32", shape, data_offsets: [4 * at, 4 * (at + count)] };
    if (key === "position.table" && places) {
      places.forEach((place, i) => stored.set(values.subarray(at + (i + 1) * width, at + (i + 2) * width), at + (place + 1) * width));
    }
    at += count;
  }
  const provenance = { ...about, source: "learned in a page of vitbook" };
  if (name) header.__metadata__ = { vitbook: JSON.stringify({ format: 1, class_names: classes, provenance,
    spec: { name, image_size: side, num_classes: classes.length, channels: 1 } }) };
  const text = new TextEncoder().encode(JSON.stringify(header)), pad = (8 - text.length % 8) % 8;
  const bytes = new Uint8Array(8 + text.length + pad + 4 * stored.length).fill(32, 8, 8 + text.length + pad);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length + pad), true);
  bytes.set(text, 8);
  bytes.set(new Uint8Array(stored.buffer), 8 + text.length + pad);
  return { bytes, name: `${name ?? "vit_learned"}-step${about.step}.safetensors` };
}

/** A number of half precision, from its sixteen bits. */
function half(bits) {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, part = bits & 1023;
  return sign * (exponent ? exponent === 31 ? (part ? NaN : Infinity) : (1 + part / 1024) * 2 ** (exponent - 15) : part / 1024 * 2 ** -14);
}

/**
 * Weights of a safetensors file that is one of these models, in the order of the trainer.
 * @param {ArrayBuffer} buffer
 */
export function fromFile(buffer, sizes, { side, classes }) {
  const most = 4e6;
  if (buffer.byteLength > most) throw new Error(`it has ${(buffer.byteLength / 1e6).toFixed(1)} MB, and a page takes at most ${most / 1e6}`);
  let header, start;
  try {
    start = 8 + Number(new DataView(buffer).getBigUint64(0, true));
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, start - 8)));
  } catch {
    throw new Error("it is no safetensors file");
  }
  const shape = (name) => Array.isArray(header?.[name]?.shape) ? header[name].shape : [], depth = Object.keys(header ?? {}).filter((name) => name.endsWith(".norm1.weight")).length;
  const [width] = shape("tokenizer.projection.weight");
  const [size] = Object.entries(sizes).find(([, each]) => each.width === width && each.depth === depth) ?? [];
  if (!size) throw new Error(`it holds a model of ${depth} blocks of width ${width ?? "unknown"}, and this page trains ` +
    Object.values(sizes).map((each) => `${each.depth} of ${each.width}`).join(" or "));
  const { hidden } = sizes[size], block = (i) => [
    ["norm1.weight", [width]], ["norm1.bias", [width]], ["attention.qkv.weight", [3 * width, width]], ["attention.qkv.bias", [3 * width]],
    ["attention.projection.weight", [width, width]], ["attention.projection.bias", [width]], ["norm2.weight", [width]], ["norm2.bias", [width]],
    ["mlp.expand.weight", [hidden, width]], ["mlp.expand.bias", [hidden]], ["mlp.contract.weight", [width, hidden]], ["mlp.contract.bias", [width]],
  ].map(([name, of]) => [`encoder.blocks.${i}.${name}`, of]);
  const expected = [["prefix", [1, width]], ["tokenizer.projection.weight", [width, 1, 2, 2]], ["tokenizer.projection.bias", [width]],
    ["position.table", [(side / 2) ** 2 + 1, width]], ...Array.from({ length: depth }, (_, i) => block(i)).flat(),
    ["encoder.norm.weight", [width]], ["encoder.norm.bias", [width]], ["head.classifier.weight", [classes, width]], ["head.classifier.bias", [classes]]];
  const values = expected.flatMap(([name, wanted]) => {
    const found = header[name];
    if (!found) throw new Error(`it has no ${name}`);
    if (`${shape(name)}` !== `${wanted}`) throw new Error(`its ${name} is ${shape(name).join(" × ")}, expected ${wanted.join(" × ")}`);
    const [from, to] = Array.isArray(found.data_offsets) ? found.data_offsets : [], count = wanted.reduce((a, b) => a * b, 1);
    const bytes = { F32: 4, F16: 2 }[found.dtype];
    if (!bytes) throw new Error(`its ${name} is ${found.dtype}, expected F32 or F16`);
    if (!Number.isInteger(from) || from < 0 || to - from !== bytes * count || start + to > buffer.byteLength) throw new Error("it is cut off");
    const raw = buffer.slice(start + from, start + to);
    const numbers = bytes === 4 ? Array.from(new Float32Array(raw)) : Array.from(new Uint16Array(raw), half);
    if (!numbers.every(Number.isFinite)) throw new Error(`its ${name} holds NaN or infinity`);
    return numbers;
  });
  return { size, values: Float32Array.from(values) };
}
