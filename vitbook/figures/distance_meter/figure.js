import { paint } from "../parts/paint.js";
import { bytes, inWords, place, weightOf } from "../parts/numbers.js";
import { canvas, div, image, label, labelled, photo, term } from "../parts/parts.js";
import { live } from "../parts/live.js";
import { veilAt } from "../parts/veil.js";
import { node, set } from "../parts/page.js";

/**
 * @param {HTMLElement} root
 * @param {{image: string, size: [number, number], grid: [number, number], names: string[],
 *   weights: string, scales: number[], published: number[], reach: number[], token: number[],
 *   uniform: number, near: number, far: number, query: number, task: string}} data
 */
export function render(root, data) {
  const [rows, columns] = data.grid, [height, width] = data.size, patches = rows * columns;
  const codes = bytes(data.weights);
  const figure = live(root, data, { head: 0, query: data.query, moved: 0 });
  const px = (number) => `${number.toFixed(0)} px`;
  const row = (head, query) => codes.subarray((head * patches + query) * patches,
    (head * patches + query + 1) * patches);

  const map = canvas(), small = data.names.map(() => canvas());
  const show = (to, head, query) => {
    const found = row(head, query), top = Math.max(...found, 1);
    paint(to, rows, columns, (patch) => veilAt(found[patch] / top));
  };
  const [even, edge, circle] = ["vb-even", "vb-edge", "vb-far"].map((kind) => node("svg:circle", { class: kind }));
  const over = node("svg:svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, even, edge, circle);
  const heads = figure.chooser("head", "head", data.names, {
    face: (i) => div("", image(height, width, photo(data.image), small[i]), data.names[i]),
    kind: "vb-faces",
  });
  const title = label(), terms = [0, 1, 2].map(() => term());

  function draw({ head, query, moved }) {
    const left = 1 - moved / 100, distance = left * data.published[head];
    const token = 1 - left * (1 - data.token[head]);
    show(map, head, query);
    small.forEach((to, i) => show(to, i, query));
    const [y, x] = place(query, columns);
    for (const [each, radius] of [[even, data.uniform], [edge, distance], [circle, distance]]) {
      set(each, { cx: (x + .5) * width / columns, cy: (y + .5) * height / rows, r: radius });
    }
    title.textContent = `${data.names[head]}: solid circle; even attention: dashed`;
    terms[0].say(px(distance), "published distance: the circle");
    terms[1].say(token.toFixed(2), "of its weight on the class token");
    terms[2].say(moved < 100 ? px(data.reach[head]) : "none", "reach: how far the rest looks");
    const goal = data.published[data.near];
    const reached = head === data.far && distance <= goal + data.published[head] / 200 &&
      `${px(distance)}, as ${data.names[data.near]} has. The map is the same as before; its reach is still ${px(data.reach[head])}.`;
    const says = `The patch in ${inWords(query, columns)} asks. ` + (moved === 100
      ? "Nothing is left on patches: the circle has no radius. "
      : moved ? `${moved} % of the weight on patches has gone to the class token, and as much of the distance. ` : "");
    const found = Array.from(row(head, query), (code) => left * weightOf(code, data.scales[head]));
    return { says, reached, told: { row: found, distance } };
  }

  figure.stage(draw,
    div("vb-meter",
      div("", title, div("vb-circles",
        image(height, width, photo(data.image), map, figure.cells("query", rows, columns).element), over)),
      div("", labelled("Choose a head", heads),
        figure.slider("moved", "Move weight to the class token", { max: 100, tell: (part) => `${part} %` }),
        div("vb-terms", ...terms.map(({ element }) => element)),
        div("vb-controls", figure.reset))));
}
