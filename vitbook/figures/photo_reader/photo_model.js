/** How long to wait before a piece is asked for again, in ms; then the reader is asked. */
const PATIENCE = [300, 1000, 3000];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const megabytes = (bytes, digits = 1) => (bytes / 1e6).toFixed(digits);

/** Where the book keeps what this page fetches; Sphinx says where its root is. */
export const modelFolder = () =>
  new URL(`${document.documentElement.dataset.content_root ?? "./"}_model/`, location.href).href;

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");

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

/** Whether these are the bytes that were written; only a page that came safely computes digests. */
const isWhole = async (content, bytes, sha256) => content.length === bytes &&
  (!crypto.subtle || hex(await crypto.subtle.digest("SHA-256", content)) === sha256);

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
 * The pretrained model in a thread of its own.
 *
 * `load` fetches what is not here yet: a piece that came is never fetched again, so a cut download
 * goes on where it was. `run` computes one image.
 * @param {string} folder  address of the model's files
 * @param {(progress: {got: number, of: number}) => void} tell
 */
export function photoModel(folder, tell) {
  const here = new Map(), notes = new Set(), waiting = new Map();
  let manifest, worker, count = 0, kind, side;

  async function fetchOnce(file, bytes, sha256, store, got) {
    const url = folder + file;
    const kept = await store?.match(url).catch(() => null);
    if (kept) {
      const whole = new Uint8Array(await kept.arrayBuffer());
      if (await isWhole(whole, bytes, sha256)) return whole;
    }
    const response = await fetch(url);
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const whole = await readBody(response, bytes, got);
    if (!(await isWhole(whole, bytes, sha256))) {
      throw new Error("its bytes are not those that were written");
    }
    await store?.put(url, new Response(whole)).catch(() =>
      notes.add("The browser has no room to keep the model: the next visit fetches it again."));
    return whole;
  }

  /** The files in turn, each asked for a few times; throws one sentence. */
  async function fetchAll(files, store) {
    const of = files.reduce((sum, { bytes }) => sum + bytes, 0);
    let before = 0;
    for (const { file, bytes, sha256 } of files) {
      for (let attempt = 0; !here.has(file); attempt++) {
        try {
          const got = (part) => tell({ got: before + part, of });
          here.set(file, await fetchOnce(file, bytes, sha256, store, got));
        } catch (error) {
          if (attempt === PATIENCE.length) {
            throw new Error(`The download stopped at ${megabytes(before)} of ${megabytes(of)} MB ` +
              `(${file}: ${error.message}). What came is kept: load again to go on.`);
          }
          await sleep(PATIENCE[attempt]);
        }
      }
      tell({ got: before += bytes, of });
    }
  }

  const ask = (words, moved = []) => new Promise((resolve, reject) => {
    waiting.set(++count, { resolve, reject });
    worker.postMessage({ id: count, ...words }, moved);
  });

  function begin() {
    worker?.terminate();
    worker = new Worker(`${folder}photo_worker.js`, { type: "module" });
    const fail = (why) => {
      for (const { reject } of waiting.values()) reject(new Error(why));
      waiting.clear();
    };
    worker.onmessage = ({ data: { id, given, error } }) => {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      error === undefined ? resolve?.(given) : reject?.(new Error(error));
    };
    worker.onerror = (event) => fail(event.message || `its thread, ${folder}photo_worker.js, could not start`);
  }

  async function open(size) {
    const { module, binary } = manifest.runtime[kind], { graph } = manifest.sizes[size];
    const weights = new Uint8Array(manifest.pieces.reduce((sum, { bytes }) => sum + bytes, 0));
    let at = 0;
    for (const { file, bytes } of manifest.pieces) {
      weights.set(here.get(file), at);
      at += bytes;
    }
    await ask({
      kind: "open", module: folder + module, binary: here.get(binary).buffer, gpu: kind === "webgpu",
      graph: here.get(graph), weights, name: manifest.weights,
    }, [weights.buffer]);
    side = size;
  }

  return {
    notes,
    /** What there is to fetch; throws one sentence where there is nothing. */
    async describe() {
      if (location.protocol === "file:") {
        throw new Error("A page opened from a file may not fetch the model: `make serve` shows the book so that it may.");
      }
      if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") {
        throw new Error("This browser has no WebAssembly, which computes the model: another or a newer one has.");
      }
      const response = await fetch(`${folder}manifest.json`).catch(() => null);
      if (!response?.ok) throw new Error("The model is not beside this page: `make book` lays it there.");
      const found = await response.json().catch(() => ({}));
      if (found.missing) throw new Error(`The model was left out when this book was built (${found.missing}).`);
      if (!found.digest || !found.pieces || !found.sizes || !found.runtime) {
        throw new Error("What the book says of its model is damaged: build the book again with `make book`.");
      }
      manifest = found;
      const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
      kind = adapter && !adapter.info?.isFallbackAdapter ? "webgpu" : "wasm";
      return manifest;
    },
    get kind() { return kind; },
    /** In bytes: of the weights with their graphs, and of the runtime. */
    get sizes() {
      const { pieces, sizes, runtime } = manifest;
      const sum = (list) => list.reduce((total, { bytes }) => total + bytes, 0);
      return { weights: sum(pieces) + sum(Object.values(sizes)), runtime: runtime[kind].bytes };
    },
    /** Fetch everything, and make ready for images of a size. */
    async load(size) {
      const { pieces, sizes, runtime } = manifest;
      const graphs = Object.values(sizes).map(({ graph, ...rest }) => ({ file: graph, ...rest }));
      const { binary, ...about } = runtime[kind], store = await openStore(manifest.digest);
      await fetchAll([{ file: binary, ...about }, ...graphs, ...pieces], store);
      begin();
      await open(size);
    },
    /** The processor in place of the graphics card, after that one failed. */
    async withoutGraphics(size) {
      kind = "wasm";
      await this.load(size);
    },
    async run(pixels, size) {
      if (size !== side) await open(size);
      return ask({ kind: "run", pixels, side: size });
    },
  };
}
