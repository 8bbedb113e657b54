import { layout, sizeOf } from "../../trainer/layout.js";
import { plainOf } from "./run.js";

/** The library's name of a model, or nothing where it has none. */
export function nameOf(size, { kind, positions, post, patch, side }) {
  if (kind === "resnet") return "resnet8_digits";
  if (patch === side || (post && !positions)) return null;
  return `vit_${post ? "postnorm_" : positions ? "" : "nopos_"}${size}_patch${patch}_${side}`;
}

/**
 * A model as a checkpoint of the library: safetensors, with what it takes to build it again. Patches in another order
 * are the same as positions in the order turned back: so it is written, and reads patches as they stand.
 */
export function asFile({ shapes, values, places, classes, side, settings, size, about }) {
  const name = nameOf(size, settings), header = {}, width = settings.width, stored = [];
  let at = 0, end = 0;
  for (const [key, shape] of shapes) {
    const part = values.slice(at, at += sizeOf(shape)), counter = key.endsWith("num_batches_tracked");
    if (key === "position.table" && places) {
      const table = part.slice();
      places.forEach((place, i) => part.set(table.subarray((i + 1) * width, (i + 2) * width), (place + 1) * width));
    }
    const raw = counter ? BigInt64Array.from(part, BigInt) : part;
    stored.push(new Uint8Array(raw.buffer));
    header[key] = { dtype: counter ? "I64" : "F32", shape, data_offsets: [end, end += raw.byteLength] };
  }
  const provenance = { ...about, source: "learned in a page of vitbook" };
  if (name) header.__metadata__ = { vitbook: JSON.stringify({ format: 1, class_names: classes, provenance,
    spec: { name, image_size: side, num_classes: classes.length, channels: 1 } }) };
  const text = new TextEncoder().encode(JSON.stringify(header)), length = Math.ceil(text.length / 8) * 8;
  const bytes = new Uint8Array(8 + length + end).fill(32, 8, 8 + length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, 8);
  stored.reduce((from, part) => (bytes.set(part, from), from + part.length), 8 + length);
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
export function fromFile(buffer, data) {
  const most = 4e6;
  if (buffer.byteLength > most) throw new Error(`it has ${(buffer.byteLength / 1e6).toFixed(1)} MB, and a page takes at most ${most / 1e6}`);
  let header, start;
  try {
    start = 8 + Number(new DataView(buffer).getBigUint64(0, true));
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, start - 8)));
  } catch {
    throw new Error("it is no safetensors file");
  }
  const shape = (name) => Array.isArray(header?.[name]?.shape) ? header[name].shape : [];
  const depth = Object.keys(header ?? {}).filter((name) => name.endsWith(".norm1.weight")).length;
  const [width] = shape("tokenizer.projection.weight");
  if (!width) throw new Error("it holds no Vision Transformer, and only a Vision Transformer learns on from a file");
  const [size] = Object.entries(data.sizes).find(([, each]) => each.width === width && each.depth === depth) ?? [];
  if (!size) throw new Error(`it holds a model of ${depth} blocks of width ${width}, and this page trains ` +
    Object.values(data.sizes).map((each) => `${each.depth} of ${each.width}`).join(" or "));
  const values = layout(plainOf(data, size)).flatMap(([name, wanted]) => {
    const found = header[name];
    if (!found) throw new Error(`it has no ${name}, which the plain model has`);
    if (`${shape(name)}` !== `${wanted}`) throw new Error(`its ${name} is ${shape(name).join(" × ")}, expected ${wanted.join(" × ")}`);
    const [from, to] = Array.isArray(found.data_offsets) ? found.data_offsets : [], count = sizeOf(wanted);
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
