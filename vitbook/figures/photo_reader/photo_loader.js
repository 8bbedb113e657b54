import { node } from "../parts/page.js";
import { div } from "../parts/parts.js";
import { press } from "./photo_sources.js";
import { besideThePage, insideThePage } from "./photo_fetch.js";
import { megabytes } from "./photo_manifest.js";
import { photoModel } from "./photo_model.js";
import { ownModel, readOwn } from "./photo_own.js";

/**
 * The model of the page and the reader's own: what fetches and starts them, and what is said of it.
 * `size()` names the size of the images now; `known(manifest)` hears what will come, and
 * `opened(manifest)` that it runs and gives the element that gets the focus.
 */
export function loader(root, data, { size, known, opened }) {
  const bar = node("i"), track = node("span", {
    class: "vb-track vb-loading", role: "progressbar", "aria-label": "megabytes of the model that came",
  }, bar);
  const counted = node("span", { "aria-hidden": "true" }); // the bar tells it to readers of screens
  const words = node("span", { role: "status" }), told = node("p", { class: "vb-note" });
  const terms = node("details", { class: "vb-own vb-terms-of" }, node("summary", {}, "Whose models these are, and their licences"), told);
  terms.hidden = true;
  const button = press("load", "Load the model", load);
  const own = ownModel(takeOwn), element = div("", div("vb-load vb-controls", button, track, counted, words), own);
  const source = data.model ? insideThePage(root, data.model) : besideThePage(({ got, of }) => {
    bar.style.width = `${100 * got / of}%`;
    track.setAttribute("aria-valuenow", Math.round(100 * got / of));
    counted.textContent = `${megabytes(got)} of ${megabytes(of)} MB`;
  });
  let manifest = null, engine = null, kinds = ["wasm"], busy = false;
  track.hidden = true;

  const canCompute = typeof WebAssembly !== "undefined" && typeof Worker !== "undefined";
  const ready = (canCompute ? source.describe() : Promise.reject(new Error(
    "This browser has no WebAssembly, which computes the model: another or a newer one has."))).then(async (found) => {
    kinds = await source.kinds();
    manifest = found;
    const [model, runtime] = source.weighs(kinds[0]);
    button.textContent = `Load the models (${megabytes(model, 0)} MB, and ${megabytes(runtime, 0)} MB that compute them)`;
    words.textContent = "Then the page says what is on the photograph. Click a patch to see what it attends to.";
    tellTerms(found);
    known(found);
  }).catch((error) => {
    words.textContent = error.message;
    button.hidden = true;
    own.hidden = !canCompute;
  });

  function tellTerms({ name, about }) {
    terms.hidden = false;
    told.textContent = `${name}: ${about}. Runtime: onnxruntime-web, MIT. `;
    if (source.notice) told.append(node("a", { href: source.notice }, "Licences"));
  }

  /** Let a model take the place of the one before, as soon as it runs. */
  async function begin(found, files, first) {
    words.textContent = "Starting it, and comparing it with torch …";
    const next = photoModel(found, files, source.runtime);
    let apart = null;
    try {
      apart = await next.start(first, kinds);
    } catch (error) {
      next.close();
      throw error;
    }
    engine?.close();
    engine = next;
    tellTerms(found);
    const lacks = found.lacks.length ? `Left out, because ${found.name} does not give it: ${found.lacks.join("; ")}. ` : "";
    words.textContent = `Ready. On a test picture its answer differs from PyTorch's by at most ${(100 * apart).toPrecision(2)} % of the largest number ` +
      `(weights in ${found.precision}). ${lacks}${[...source.notes].join(" ")}`;
    const focus = opened(found);
    if (element.contains(document.activeElement) || document.activeElement === document.body) {
      focus.focus({ preventScroll: true }); // the button goes
    }
    button.hidden = true;
  }

  /** One at a time; what goes wrong is one sentence. */
  async function alone(start, again = () => {}) {
    if (busy) {
      words.textContent = "Another model is on its way: drop or choose this one when it is ready.";
      return;
    }
    busy = button.disabled = true;
    try {
      await start();
    } catch (error) {
      words.textContent = error.message;
      again();
    }
    busy = button.disabled = false;
    track.hidden = true;
    counted.textContent = "";
  }
  async function load() {
    await ready;
    if (!manifest || engine) return;
    await alone(async () => {
      track.hidden = Boolean(data.model);
      words.textContent = "";
      await begin(manifest, await source.files(kinds[0]), size());
    }, () => (button.textContent = "Load again"));
  }
  async function takeOwn(files) {
    await ready;
    if (canCompute) await alone(async () => {
      words.textContent = "Reading the model …";
      const { manifest: found, files: content } = await readOwn(await files);
      await begin(found, content, Object.keys(found.sizes)[0]);
    });
  }
  if (data.model) load();

  return { element, terms, load, takeOwn, ready: () => engine !== null, get engine() { return engine; } };
}
