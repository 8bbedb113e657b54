import { node, set } from "../parts/page.js";
import { div } from "../parts/parts.js";
import { firstFile, readPhoto, wholeOf } from "./photo_file.js";

const REFUSED = {
  NotAllowedError: "The camera was refused: allow it beside the page's address, or choose a file.",
  NotFoundError: "No camera was found: choose a file, drop one or paste one.",
  NotReadableError: "Another program holds the camera: close it, or choose a file.",
};

/** A button for what no state of a figure holds. */
export const press = (name, words, onclick) => node("button", { type: "button", "data-press": name, onclick }, words);

/**
 * A photograph by file, drop, paste or camera; `take` gets it as a canvas. `other(transfer)`
 * says whether it takes what was dropped as something else.
 */
export function sources(root, take, other) {
  const said = node("span", { class: "vb-note", role: "status" });
  const input = node("input", { type: "file", accept: "image/*", class: "vb-spoken", tabindex: -1, "aria-hidden": "true" });
  const video = node("video", { playsinline: true, muted: true, class: "vb-video" });
  let stream = null, count = 0;

  async function read(file) {
    if (!file) return;
    const turn = ++count; // of what is chosen later
    said.textContent = "Reading the picture …";
    try {
      const picture = await readPhoto(file);
      if (turn !== count) return; // another one was chosen meanwhile
      said.textContent = `${file.name || "The picture"}: it stays in this page.`;
      take(picture);
    } catch (error) {
      if (turn === count) said.textContent = error.message;
    }
  }
  input.addEventListener("change", () => {
    read(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });

  const forget = () => {
    count++;
    said.textContent = "";
  };
  const stop = () => {
    stream?.getTracks().forEach((track) => track.stop());
    stream = null;
    shot.hidden = true;
    camera.textContent = "Use the camera";
  };
  const camera = press("camera", "Use the camera", async () => {
    if (stream) return stop();
    if (!navigator.mediaDevices?.getUserMedia) {
      said.textContent = "This page may not use a camera here: choose a file, drop one or paste one.";
      return;
    }
    camera.disabled = true; // until the reader has answered
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      video.srcObject = stream;
      stream.getTracks().forEach((track) => track.addEventListener("ended", stop));
      await video.play();
      shot.hidden = false;
      camera.textContent = "Stop the camera";
    } catch (error) {
      stop();
      said.textContent = REFUSED[error.name] ?? `The camera could not start (${error.message}): choose a file.`;
    }
    camera.disabled = false;
  });
  const release = press("shoot", "Take the photograph", () => {
    if (!stream || !video.videoWidth) return; // no picture has come yet
    count++;
    take(wholeOf(video, video.videoWidth, video.videoHeight));
    said.textContent = "Your photograph: it stays in this page.";
    stop();
  });
  const shot = set(div("vb-camera", video, release), { hidden: true });

  // Anywhere on the page, where the browser would leave it for the picture; of two figures one.
  const over = (on) => (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    root.classList.toggle("vb-over", on);
  };
  const taken = (transfer) => (event) => {
    const file = firstFile(event[transfer]);
    if (event.defaultPrevented || !file) return;
    if (transfer === "clipboardData" &&
      (!file.type.startsWith("image/") || event.target.closest?.("input, textarea, [contenteditable]"))) return;
    event.preventDefault();
    root.classList.remove("vb-over");
    if (transfer === "clipboardData" || !other(event.dataTransfer)) read(file);
  };
  for (const [name, listen] of Object.entries({
    dragover: over(true), dragleave: over(false), drop: taken("dataTransfer"), paste: taken("clipboardData"),
  })) document.addEventListener(name, listen);
  const choose = press("file", "Choose a photograph", () => input.click());
  return { forget, element: div("", div("vb-controls", choose, camera, node("span", { class: "vb-note" }, "or drop or paste one"), input, said), shot) };
}
