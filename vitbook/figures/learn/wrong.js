import { node, set } from "../parts/page.js";
import { paint } from "../parts/paint.js";
import { canvas, div, label } from "../parts/parts.js";

const MOST = 24; // of them are shown

/** A digit as grey pixels. */
export const thumb = (sheet, ink, { side, levels }) => paint(sheet, side, side, (p) => Array(3).fill(ink[p] * 255 / levels));

/** The held-out digits that are read wrong, and as what. */
export function wrongOf(data) {
  const faces = Array.from({ length: MOST }, () => {
    const sheet = canvas(), read = node("span");
    return { sheet, read, box: node("div", { role: "img" }, sheet, read) };
  });
  const told = label(), pixels = data.side ** 2;
  let mixed = null;
  /** @param {?{labels: Int32Array, ink: Uint8Array}} held  @param {?{answers: Uint8Array}} now */
  function show(held, now) {
    mixed ??= held && Array.from(held.labels, (_, i) => i * 97 % held.labels.length); // not all zeros first
    const rows = now ? mixed.filter((i) => now.answers[i] !== held.labels[i]) : [];
    faces.forEach(({ sheet, read, box }, i) => {
      const row = rows[i];
      box.hidden = row === undefined;
      if (box.hidden) return;
      thumb(sheet, held.ink.subarray(row * pixels, (row + 1) * pixels), data);
      const [is, as] = [data.classes[held.labels[row]], data.classes[now.answers[row]]];
      read.textContent = `${is} → ${as ?? "–"}`;
      set(box, { "aria-label": `a ${is}, read as ${as ?? "nothing"}` });
    });
    told.textContent = !now ? "What it reads wrong will stand here"
      : `${rows.length} of ${held.labels.length} digits are read wrong${rows.length > MOST ? `, ${MOST} of them here` : ""}; ` +
        "below each, what it is → what is read";
  }
  return { elements: [told, div("vb-wrongs", ...faces.map(({ box }) => box))], show };
}
