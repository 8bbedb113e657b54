import { inflate, inflated } from "../parts/pieces.js";
import { bytesOf, filesOf, isWhole, megabytes, readManifest } from "./photo_manifest.js";

/** How long to wait before a piece is asked for again, in ms; then the reader is asked. */
const PATIENCE = [300, 1000, 3000];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Where the book keeps what this page fetches; Sphinx says where its root is. */
export const modelFolder = () =>
  new URL(`${document.documentElement.dataset.content_root ?? "./"}_model/`, location.href).href;

/** The browser's own store for this model, without older ones; null where it has none. */
async function openStore(digest) {
  try {
    const name = `vitbook-model-${digest}`;
    for (const other of await caches.keys()) {
      if (other.startsWith("vitbook-model-") && other !== name) await caches.delete(other);
    }
    return await caches.open(name);
  } catch {
    return null; // a private window, or no https
  }
}

/** Read a response as it comes; `got` hears of each part. */
async function readBody(response, bytes, got) {
  const whole = new Uint8Array(bytes), reader = response.body.getReader();
  for (let at = 0; ;) {
    const { done, value } = await reader.read();
    if (done && at === bytes) return whole;
    if (done || at + value.length > bytes) throw new Error("it has another length");
    whole.set(value, at);
    got(at += value.length);
  }
}

/**
 * The book's own model, and the runtime of all models, beside the pages: a file that came is never
 * fetched again, so a cut download goes on where it was. Each may throw one sentence.
 * @param {(progress: {got: number, of: number}) => void} tell
 */
export function besideThePage(tell) {
  const folder = modelFolder(), here = new Map(), notes = new Set();
  let said = null;

  async function fetchOnce(piece, store, got) {
    const url = folder + piece.file;
    const kept = await store?.match(url).catch(() => null);
    if (kept) {
      const whole = new Uint8Array(await kept.arrayBuffer());
      if (await isWhole(whole, piece)) return whole;
    }
    const response = await fetch(`${url}.packed`);
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const whole = await inflated(await readBody(response, said.packed[piece.file], got)).catch(() => null);
    if (!whole || !(await isWhole(whole, piece))) throw new Error("its bytes are not those that were written");
    await store?.put(url, new Response(whole)).catch(() =>
      notes.add("The browser has no room to keep the model: the next visit fetches it again."));
    return whole;
  }

  /** The files in turn, each asked for a few times. */
  async function fetchAll(files) {
    const of = weighs(files), store = await openStore(said.digest);
    let before = 0;
    for (const piece of files) {
      for (let attempt = 0; !here.has(piece.file); attempt++) {
        try {
          here.set(piece.file, await fetchOnce(piece, store, (part) => tell({ got: before + part, of })));
        } catch (error) {
          if (attempt === PATIENCE.length) {
            throw new Error(`The download stopped at ${megabytes(before)} of ${megabytes(of)} MB ` +
              `(${piece.file}: ${error.message}). What came is kept: load again to go on.`);
          }
          await sleep(PATIENCE[attempt]);
        }
      }
      tell({ got: before += weighs([piece]), of });
    }
  }
  /** Bytes to fetch: the files lie there deflated. */
  const weighs = (files) => files.reduce((sum, { file }) => sum + said.packed[file], 0);
  const binaryOf = (kind) => {
    const { binary, bytes, sha256 } = said.runtime[kind];
    return { file: binary, bytes, sha256 };
  };

  /** What lies there, asked once more where it was not to be had. */
  async function look() {
    if (said) return said;
    if (location.protocol === "file:") {
      throw new Error("A page opened from a file may not fetch the model: `make serve` shows the book so that it may.");
    }
    const response = await fetch(`${folder}manifest.json`).catch(() => null);
    if (!response?.ok) throw new Error("The model is not beside this page: `make book` lays it there.");
    const found = await response.json().catch(() => ({}));
    if (found.missing && !found.runtime) throw new Error(`What computes a model was left out when this book was built (${found.missing}).`);
    if (!found.digest || !found.runtime || !found.packed) throw new Error("What the book says of its model is damaged: build the book again with `make book`.");
    return (said = found);
  }

  return {
    notes, notice: `${folder}NOTICE.txt`,
    async describe() {
      const found = await look();
      if (found.missing) throw new Error(`The book's model was left out when this book was built (${found.missing}).`);
      return readManifest(JSON.stringify(found));
    },
    async kinds() {
      const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
      return adapter && !adapter.info?.isFallbackAdapter ? ["webgpu", "wasm"] : ["wasm"];
    },
    /** Bytes to fetch, of the model and of the runtime. */
    weighs: (kind) => [weighs(filesOf(said)), weighs([binaryOf(kind)])],
    async files(kind) {
      await fetchAll([binaryOf(kind), ...filesOf(said)]);
      return here;
    },
    async runtime(kind) {
      const piece = binaryOf((await look()) && kind);
      if (!here.has(piece.file)) await fetchAll([piece]);
      return { module: folder + said.runtime[kind].module, binary: here.get(piece.file) };
    },
  };
}

/** The same of a page that holds model and runtime, as `vitbook page` writes it. */
export function insideThePage(root, { manifest, files, module, binary }) {
  const open = (key) => inflate(JSON.parse(root.querySelector(`.vb-piece[data-key="${key}"]`).textContent));
  let opened = null;
  return {
    notes: new Set(),
    describe: async () => readManifest(JSON.stringify(manifest)),
    kinds: async () => ["wasm"],
    weighs: () => [bytesOf(filesOf(manifest)), 0],
    files: async () => new Map(await Promise.all(
      Object.entries(files).map(async ([file, key]) => [file, await open(key)]))),
    runtime: () => (opened ??= Promise.all([open(module), open(binary)]).then(([text, whole]) => ({ text, binary: whole }))),
  };
}
