import { set } from "../parts/page.js";

// Pixels of the shorter side that are kept: enough to be scaled down once more without loss.
const KEPT = 448;
const LONGEST = 3; // times the shorter side; of a panorama the middle is kept

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

/** The largest middle of something that fills so many pixels, down and across, on white. */
function middle(drawable, width, height, [down, across]) {
  const scale = Math.min(width / across, height / down), [w, h] = [across * scale, down * scale];
  const canvas = set(document.createElement("canvas"), { width: across, height: down });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, across, down);
  context.imageSmoothingQuality = "high";
  context.drawImage(drawable, (width - w) / 2, (height - h) / 2, w, h, 0, 0, across, down);
  return canvas;
}

/**
 * Something that can be drawn as a canvas that is large enough for every model; its `ratio` says how
 * many times as wide as high all of it is.
 */
export function wholeOf(drawable, width, height) {
  const short = Math.min(width, height), scale = Math.min(1, KEPT / short);
  const size = [height, width].map((side) => Math.max(1, Math.round(Math.min(side, LONGEST * short) * scale)));
  return Object.assign(middle(drawable, width, height, size), { ratio: width / height });
}

/**
 * A picture of the reader's own as a canvas. Of a large one the browser decodes a smaller
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
    if (scale === 1) return wholeOf(image, width, height);
    const small = await createImageBitmap(file,
      { resizeWidth: across, resizeHeight: down, resizeQuality: "high" }).catch(() => null);
    // A drawing, or a file that ends early, can only be drawn as it is shown.
    if (!small && width * height < 4e7) return wholeOf(image, width, height);
    if (!small) throw new Error(`${name} is too large for this browser (${width} × ${height} pixels): make it smaller first.`);
    return wholeOf(small, small.width, small.height);
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The first picture of a drop or a paste; null where there is none. */
export const firstFile = (transfer) => [...(transfer?.files ?? [])][0] ?? null;

const LUMA = [.299, .587, .114]; // of ITU-R BT.601, as the library's

/**
 * The middle of a canvas as bytes of red, green and blue, one colour after the other, at a size (its
 * height and its width); or all three grey.
 */
export function pixelsOf(canvas, size, grey = false) {
  const [height, width] = size, count = height * width;
  const { data } = middle(canvas, canvas.width, canvas.height, size).getContext("2d").getImageData(0, 0, width, height);
  const planes = new Uint8Array(3 * count);
  for (let i = 0; i < count; i++) {
    const luma = grey && Math.round(LUMA.reduce((sum, part, c) => sum + part * data[4 * i + c], 0));
    for (let c = 0; c < 3; c++) planes[c * count + i] = grey ? luma : data[4 * i + c];
  }
  return planes;
}
