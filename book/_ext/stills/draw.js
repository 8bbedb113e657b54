/**
 * From the standard input a JSON list of figures, `{module, data, pieces}`, a module's path, what
 * it draws, and the blocks that it may ask for; to the standard output the list of their stills.
 */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { element, install } from "./document.js";

install();
const drawn = [];
for (const { module, data, pieces } of JSON.parse(readFileSync(0, "utf8"))) {
  const { render } = await import(pathToFileURL(module));
  const blocks = pieces.map(([key, text]) => element("script", { class: "vb-piece", "data-key": key }, text));
  const root = element("div", {}, element("div", { class: "vb-still" }), ...blocks);
  render(root, data);
  drawn.push(root.querySelector(".vb-live"));
}
// Pieces are unpacked in the meantime: when nothing is left to do, all figures are drawn.
process.once("beforeExit", () =>
  process.stdout.write(JSON.stringify(drawn.map((live) => live.inside()))));
