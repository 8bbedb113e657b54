import { node } from "../parts/page.js";
import { div } from "../parts/parts.js";
import { press } from "./photo_sources.js";
import { megabytes, modelFolder, photoModel } from "./photo_model.js";

/** The button that fetches the model, its bar, and what is said of both. */
export function loader(size, opened) {
  const bar = node("i"), track = node("span", {
    class: "vb-track vb-loading", role: "progressbar", "aria-label": "megabytes of the model that came",
  }, bar);
  const counted = node("span", { "aria-hidden": "true" }); // the bar tells it to readers of screens
  const words = node("span", { role: "status" }), terms = node("p", { class: "vb-note vb-terms-of" });
  const button = press("load", "Load the model", load);
  const element = div("vb-load vb-controls", button, track, counted, words);
  const listeners = [];
  const engine = photoModel(modelFolder(), ({ got, of }) => {
    bar.style.width = `${100 * got / of}%`;
    track.setAttribute("aria-valuenow", Math.round(100 * got / of));
    counted.textContent = `${megabytes(got)} of ${megabytes(of)} MB`;
  });
  let manifest = null, ready = false, apart = null;
  track.hidden = true;

  const known = engine.describe().then((found) => {
    manifest = found;
    const { weights, runtime } = engine.sizes;
    button.textContent = `Load the model (${megabytes(weights, 0)} MB, and ${megabytes(runtime, 0)} MB that compute it)`;
    terms.textContent = `Weights: ${manifest.about.source}, ${manifest.about.terms}; ${manifest.about.learned}. ` +
      "Runtime: onnxruntime-web, MIT. Your photograph stays in this page. ";
    terms.append(node("a", { href: `${modelFolder()}NOTICE.txt` }, "Their licences"));
    listeners.forEach((listen) => listen(manifest.heads));
  }).catch((error) => {
    words.textContent = error.message;
    button.hidden = true;
  });

  async function load() {
    await known;
    if (!manifest || ready || button.disabled) return;
    button.disabled = true;
    track.hidden = false;
    words.textContent = "";
    try {
      await engine.load(size());
      words.textContent = "Starting it, and comparing it with torch …";
      ready = true;
      const next = await opened(engine);
      if (element.contains(document.activeElement) || document.activeElement === document.body) {
        next.focus({ preventScroll: true }); // the button goes
      }
      button.hidden = track.hidden = counted.hidden = true;
    } catch (error) {
      ready = false;
      words.textContent = error.message;
      button.disabled = false;
      button.textContent = "Load again";
    }
  }

  return {
    element, engine, terms,
    ready: () => ready && apart !== null,
    heads: () => manifest.heads,
    whenKnown: (listen) => (manifest ? listen(manifest.heads) : listeners.push(listen)),
    /** What the comparison with torch found. */
    checked(most) {
      apart = most;
      words.textContent = `Ready. Checked on the first photograph: what draws the eye is within ${most.toFixed(3)} of ` +
        "PyTorch's, on a scale from 0 to 1. Weights of 8 bits cost that. " + [...engine.notes].join(" ");
    },
  };
}
