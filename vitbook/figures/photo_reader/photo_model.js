import { apartFrom, bytesOf, patternOf, sidesOf } from "./photo_manifest.js";
import { modelThread } from "./photo_worker.js";

const WRONG = 0.1; // of the largest number: a graphics card that is farther from torch is left

let threadAddress = null; // of the worker's text

/**
 * A model in a thread of its own.
 * @param {object} manifest
 * @param {Map<string, Uint8Array>} files  what the manifest names
 * @param {(kind: string) => Promise<{module?: string, text?: Uint8Array, binary: Uint8Array}>} runtime
 *   its module by address or as text
 */
export function photoModel(manifest, files, runtime) {
  const waiting = new Map();
  let worker, count = 0, kind, computing;

  const ask = (words, moved = []) => new Promise((resolve, reject) => {
    waiting.set(++count, { resolve, reject });
    worker.postMessage({ id: count, ...words }, moved);
  });

  function close(why = "it was closed") {
    worker?.terminate();
    for (const { reject } of waiting.values()) reject(new Error(why));
    waiting.clear();
  }

  function begin() {
    close();
    threadAddress ??= URL.createObjectURL(new Blob([`(${modelThread})(self)`], { type: "text/javascript" }));
    worker = new Worker(threadAddress);
    worker.onmessage = ({ data: { id, given, error } }) => {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      error === undefined ? resolve?.(given) : reject?.(new Error(error));
    };
    worker.onerror = (event) => close(event.message || "its thread could not start");
  }

  async function open() {
    const { pieces, graph, name, weights: path } = manifest, weights = new Uint8Array(bytesOf(pieces));
    pieces.reduce((at, { file, bytes }) => (weights.set(files.get(file), at), at + bytes), 0);
    try {
      await ask({ kind: "open", ...computing, gpu: kind === "webgpu",
        graph: files.get(graph.file), weights, name: path }, [weights.buffer]);
    } catch (error) {
      throw new Error(`The runtime refuses ${graph.file} of ${name}: ${error.message}`);
    }
  }

  const model = {
    manifest, close,
    get kind() { return kind; },
    /** Get ready for images of a size by the first of these kinds that works; gives how far it is from torch. */
    async start(size, kinds) {
      for (kind of kinds) {
        const last = kind === kinds.at(-1);
        try {
          computing = await runtime(kind);
          begin();
          await open();
          const { outputs } = await model.run(patternOf(...sidesOf(size)), size);
          const apart = apartFrom(manifest.sizes[size], outputs);
          if (apart < WRONG || last) return apart;
        } catch (error) {
          if (last) throw error;
        }
      }
    },
    /** @param {Uint8Array} planes  red, green and blue; of a model of one channel the first is taken */
    run(planes, size) {
      const { channels } = manifest;
      return ask({ kind: "run", pixels: planes.slice(0, channels * planes.length / 3), channels, size: sidesOf(size) });
    },
  };
  return model;
}
