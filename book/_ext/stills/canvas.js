import { crc32, deflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

function chunk(kind, body) {
  const named = Buffer.concat([Buffer.from(kind), body]), ends = Buffer.alloc(8);
  ends.writeUInt32BE(body.length);
  ends.writeUInt32BE(crc32(named), 4);
  return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
}

/** Red, green, blue and alpha as the address of a PNG. */
function png(width, height, rgba) {
  const lines = Buffer.alloc(height * (4 * width + 1));
  for (let y = 0; y < height; y++) {
    lines.set(rgba.subarray(4 * width * y, 4 * width * (y + 1)), y * (4 * width + 1) + 1);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  head.set([8, 6], 8); // eight bits, of red, green, blue and alpha
  const file = Buffer.concat([SIGNATURE, chunk("IHDR", head),
    chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
  return `data:image/png;base64,${file.toString("base64")}`;
}

/** "#fff", "#d55e00" or "rgb(0 0 0 / .7)" as red, green, blue and the part that covers. */
function parsed(color) {
  const digits = color.match(/^#([\da-f]{3}|[\da-f]{6})$/i)?.[1];
  const long = digits?.length === 3 ? digits.replace(/./g, "$&$&") : digits;
  if (long) return [0, 2, 4].map((i) => parseInt(long.slice(i, i + 2), 16)).concat(1);
  const parts = color.match(/^rgb\((.*)\)$/)?.[1].match(/[\d.]+/g)?.map(Number) ?? [];
  if (parts.length < 3) throw new Error(`a colour of another form: ${color}`);
  return parts.length === 3 ? [...parts, 1] : parts;
}

/** Of a canvas's context: whole images, and discs with their rims. */
export class Canvas {
  constructor(element) { this.element = element; }

  /** What is drawn lies on a sheet as large as the element says, until its size is set again. */
  get sheet() {
    const [width, height] = ["width", "height"].map((side) => Number(this.element.getAttribute(side)));
    return this.kept ??= this.createImageData(width, height);
  }
  createImageData(width, height) { return { width, height, data: new Uint8ClampedArray(4 * width * height) }; }
  clear() { this.kept = null; }
  putImageData(image, x = 0, y = 0) {
    const { width, height, data } = this.sheet;
    if (x || y || image.width !== width || image.height !== height) throw new Error("an image beside its canvas");
    data.set(image.data);
  }

  beginPath() { this.discs = []; }
  arc(x, y, radius) { this.discs.push([x, y, radius]); }
  fill() { this.cover(parsed(this.fillStyle), (away, radius) => away < radius); }
  stroke() { this.cover(parsed(this.strokeStyle), (away, radius) => Math.abs(away - radius) < this.lineWidth / 2); }
  cover([red, green, blue, part], inside) {
    const { width, height, data } = this.sheet;
    for (const [x, y, radius] of this.discs) {
      const reach = Math.ceil(radius + 2);
      for (let row = Math.floor(y) - reach; row <= y + reach; row++) {
        for (let column = Math.floor(x) - reach; column <= x + reach; column++) {
          if (row < 0 || column < 0 || row >= height || column >= width) continue;
          if (!inside(Math.hypot(column + 0.5 - x, row + 0.5 - y), radius)) continue;
          const at = 4 * (row * width + column);
          [red, green, blue].forEach((level, i) => (data[at + i] += part * (level - data[at + i])));
          data[at + 3] = Math.max(data[at + 3], 255 * part);
        }
      }
    }
  }

  address() {
    const { width, height, data } = this.sheet;
    return width && height ? png(width, height, data) : "";
  }
}
