import { node } from "../parts/page.js";
import { div, note } from "../parts/parts.js";
import { press } from "./photo_sources.js";
import { filesOf, isWhole, readManifest } from "./photo_manifest.js";

/** A folder that `vitbook export --page` wrote, out of files; throws one sentence. */
export async function readOwn(given) {
  const byName = new Map(given.map((file) => [file.name, file])), said = byName.get("manifest.json");
  if (!said) {
    const came = given.length === 1 ? given[0].name : `${given.length} files`;
    throw new Error(`There is no manifest.json (${came}): choose the folder that \`vitbook export MODEL --page FOLDER\` wrote, or all of its files.`);
  }
  if (given.filter(({ name }) => name === "manifest.json").length > 1) {
    throw new Error("There is more than one manifest.json: choose the folder of one model.");
  }
  const manifest = readManifest(await said.text()), files = new Map();
  for (const piece of filesOf(manifest)) {
    const file = byName.get(piece.file);
    if (!file) throw new Error(`${piece.file} is missing, which manifest.json names: choose all files of the folder.`);
    if (file.size !== piece.bytes) {
      throw new Error(`${piece.file} has ${file.size} bytes, and manifest.json says ${piece.bytes}: copy it again.`);
    }
    const content = new Uint8Array(await file.arrayBuffer());
    if (!(await isWhole(content, piece))) throw new Error(`${piece.file} has other bytes than were written: copy it again.`);
    files.set(piece.file, content);
  }
  return { manifest, files };
}

// Also those that are no folder of a page, so that what is dropped is told what to do.
const WEIGHTS = /\.(json|onnx|bin|safetensors|pth?|ckpt)$/i;

const listed = (reader) => new Promise((done, fail) => reader.readEntries(done, fail));
const fileOf = (entry) => new Promise((done, fail) => entry.file(done, fail));

async function filesIn(folder) {
  const reader = folder.createReader(), found = [];
  for (let some; (some = await listed(reader)).length;) found.push(...some); // it gives a hundred at a time
  return Promise.all(found.filter((entry) => entry.isFile).map(fileOf));
}

/** The files of a dropped model, as a promise; null where a picture was dropped. */
export function droppedModel(transfer) {
  const files = [...(transfer?.files ?? [])];
  const folders = [...(transfer?.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
  if (folders.length) {
    return Promise.all(folders.map(filesIn)).then((found) => found.flat(), () => { // of a page that is a file
      throw new Error("Here the browser does not open a dropped folder: choose it with “Choose its folder”, or drop its files.");
    });
  }
  return files.some(({ name }) => WEIGHTS.test(name)) ? Promise.resolve(files) : null;
}

/** Where a reader gives a model of their own; `take` gets its files. */
export function ownModel(take) {
  const picker = (attributes) => {
    const input = node("input", { type: "file", class: "vb-spoken", tabindex: -1, "aria-hidden": "true", ...attributes });
    input.addEventListener("change", () => {
      take([...input.files]);
      input.value = ""; // so that the same can be chosen again
    });
    return input;
  };
  const folder = picker({ webkitdirectory: true, "data-own": "folder" }), files = picker({ multiple: true, "data-own": "files" });
  return node("details", { class: "vb-own" }, node("summary", {}, "Show a model of your own"),
    note(node("code", {}, "vitbook export MODEL --page FOLDER"), " writes its folder. Drop the folder here, or choose it. It stays in this page."),
    div("vb-controls", press("own-folder", "Choose its folder", () => folder.click()),
      press("own-files", "Choose its files", () => files.click()), folder, files));
}
