import { set } from "../parts/page.js";

// Of the square that is kept: enough to be scaled down once more without loss.
const KEPT = 448;

const KINDS = "a JPEG, PNG, WebP or AVIF";

/** Width and height of a picture as it is shown, before it is decoded; null where it is none. */
function measured(url) {
  return new Promise((done) => {
    const image = new Image();
    set(image, {
      onload: () => done(image.naturalWidth && [image.naturalWidth, image.naturalHeight, image]),
      onerror: () => done(null),
    });
    image.src = url;
  });
}

/** The middle square of something that can be drawn, on white. */
export function middleSquare(drawable, width, height) {
  const short = Math.min(width, height), side = Math.max(1, Math.min(short, KEPT));
  const canvas = set(document.createElement("canvas"), { width: side, height: side });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, side, side);
  context.imageSmoothingQuality = "high";
  context.drawImage(drawable, (width - short) / 2, (height - short) / 2, short, short, 0, 0, side, side);
  return canvas;
}

/**
 * A picture of the reader's own as a square canvas. Of a large one the browser decodes a smaller
 * one beside the page. Throws one sentence.
 */
export async function readPhoto(file) {
  const name = file.name || "The picture";
  if (!file.size) throw new Error(`${name} is empty: choose ${KINDS}.`);
  const url = URL.createObjectURL(file);
  try {
    const found = await measured(url);
    if (!found) {
      const apple = /\.hei[cf]$/i.test(name) || /hei[cf]/.test(file.type);
      throw new Error(apple ? `${name} is a HEIC, which this browser cannot read: share it as ${KINDS}.`
        : `${name} is no picture that this browser can read: choose ${KINDS}.`);
    }
    const [width, height, image] = found, scale = Math.min(1, KEPT / Math.min(width, height));
    const across = Math.max(1, Math.round(width * scale)), down = Math.max(1, Math.round(height * scale));
    if (scale === 1) return middleSquare(image, width, height);
    const small = await createImageBitmap(file,
      { resizeWidth: across, resizeHeight: down, resizeQuality: "high" }).catch(() => null);
    // A drawing, or a file that ends early, can only be drawn as it is shown.
    if (!small && width * height < 4e7) return middleSquare(image, width, height);
    if (!small) throw new Error(`${name} is too large for this browser (${width} × ${height} pixels): make it smaller first.`);
    return middleSquare(small, small.width, small.height);
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The first picture of a drop or a paste; null where there is none. */
export const firstFile = (transfer) => [...(transfer?.files ?? [])][0] ?? null;

const LUMA = [.299, .587, .114]; // of ITU-R BT.601, as the library's

/** A canvas as bytes of red, green and blue, one colour after the other, at a size; or all three grey. */
export function pixelsOf(canvas, side, grey = false) {
  const small = set(document.createElement("canvas"), { width: side, height: side });
  const context = small.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(canvas, 0, 0, side, side);
  const { data } = context.getImageData(0, 0, side, side), count = side * side;
  const planes = new Uint8Array(3 * count);
  for (let i = 0; i < count; i++) {
    const luma = grey && Math.round(LUMA.reduce((sum, part, c) => sum + part * data[4 * i + c], 0));
    for (let c = 0; c < 3; c++) planes[c * count + i] = grey ? luma : data[4 * i + c];
  }
  return planes;
}
