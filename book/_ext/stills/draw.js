/**
 * From the standard input a JSON list of figures, `{name, module, data, pieces}`, a module's path,
 * what it draws, and the blocks that it may ask for; to the standard output the list of their starts.
 */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { element, install } from "./document.js";

console.log = console.error; // the standard output is the answer
install();
const drawn = [];
for (const { name, module, data, pieces } of JSON.parse(readFileSync(0, "utf8"))) {
  const blocks = pieces.map(([key, text]) => element("script", { class: "vb-piece", "data-key": key }, text));
  const root = element("div", {}, element("div", { class: "vb-still" }), ...blocks);
  try {
    const { render } = await import(pathToFileURL(module));
    render(root, data);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  }
  const live = root.querySelector(".vb-live");
  if (!live) throw new Error(`${name}: render() put nothing on its stage`);
  drawn.push(live);
}
// Pieces are unpacked in the meantime: when nothing is left to do, all figures are drawn.
process.once("beforeExit", () =>
  process.stdout.write(JSON.stringify(drawn.map((live) => live.inside()))));
