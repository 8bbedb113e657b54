/** What `vitbook export --page` writes, and the bytes that a page takes: as in page_manifest.py. */
export const FORMAT = "vitbook page model 2", MOST = 400e6;

export const megabytes = (bytes, digits = 1) => (bytes / 1e6).toFixed(digits);
export const bytesOf = (pieces) => pieces.reduce((sum, { bytes }) => sum + bytes, 0);
/** All files but the manifest. */
export const filesOf = ({ graph, pieces }) => [graph, ...pieces];
/** Height and width in pixels, of a size by its name. */
export const sidesOf = (size) => size.split("x").map(Number);

/** Names of the sizes, each square with those of about as many pixels, the smallest first; one level without a square. */
export function levelsOf({ sizes }) {
  const pixels = (size) => product(sidesOf(size)), names = Object.keys(sizes).sort((a, b) => pixels(a) - pixels(b));
  const squares = names.filter((size) => new Set(sidesOf(size)).size === 1), levels = squares.map(() => []);
  if (!squares.length) return [names];
  for (const size of names) {
    const apart = squares.map((square) => Math.abs(Math.log(pixels(size) / pixels(square))));
    levels[apart.indexOf(Math.min(...apart))].push(size);
  }
  return levels;
}

/** Of a picture so many times as wide as high: what shares of its height and width a size shows. */
export function partShown(size, ratio) {
  const [height, width] = sidesOf(size), own = width / height;
  return [Math.min(1, ratio / own), Math.min(1, own / ratio)];
}

const isPiece = (each) => typeof each?.file === "string" && !/[/\\]/.test(each.file) &&
  Number.isInteger(each.bytes) && each.bytes > 0 && /^[0-9a-f]{64}$/.test(each.sha256);
const isText = (each) => typeof each === "string", isTexts = (each) => Array.isArray(each) && each.every(isText);
const isTable = (each) => typeof each === "object" && each !== null && !Array.isArray(each);
const isCount = (each) => Number.isInteger(each) && each > 0;
export const product = (shape) => shape.reduce((a, b) => a * b, 1);

/** A manifest out of its text, held against itself; throws one sentence. */
export function readManifest(text) {
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error("manifest.json is damaged, it is no JSON: export the model again.");
  }
  if (found?.format !== FORMAT) {
    throw new Error(`manifest.json is of the format “${found?.format}”, and this page reads “${FORMAT}”: export the model again.`);
  }
  const must = (right, what) => {
    if (!right) throw new Error(`manifest.json is wrong about ${what}: export the model again.`);
  };
  const { name, channels, prefix, graph, sizes, pieces, layers, answers, lacks } = found;
  must([name, found.about, found.weights, found.precision].every(isText), "its name, weights or precision");
  must([1, 3].includes(channels), `the channels, ${channels}: a page gives 1 or 3`);
  must(Number.isInteger(prefix) && prefix >= 0, `the tokens before the patches, ${prefix}`);
  must(isPiece(graph), "its graph (name, bytes and sha256)");
  must(Array.isArray(pieces) && pieces.every(isPiece), "its pieces (name, bytes and sha256 of each)");
  must(isTexts(lacks), "what it lacks");
  must(Array.isArray(layers) && layers.every(isTable) && isTable(sizes) && Object.keys(sizes).length &&
    isTable(answers) && Object.values(answers).every(isTable), "its layers, sizes or answers");
  for (const { label, about, classes, kinds, least } of Object.values(answers)) {
    must(isText(label) && isText(about) && [classes, kinds ?? null].every((each) => each === null || isTexts(each)), "the names of its answers");
    must((least ?? null) === null || typeof least === "number" && least > 0 && least < 1, `the probability from which it names a class, ${least}`);
  }
  must((found.map ?? null) === null || isTexts(found.map) && found.map.length === 2, "its map");
  for (const [sides, about] of Object.entries(sizes)) {
    const size = `images of ${sides} px`, [height, width] = sidesOf(sides);
    must(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/.test(sides) && Math.max(height, width) <= 2048 && isTable(about), size);
    const { grid, macs, outputs, check } = about;
    must(Number.isInteger(macs) && macs >= 0, `what ${size} cost`);
    const shapes = isTable(outputs) ? Object.values(outputs).map((each) => each?.shape) : [];
    must(shapes.length && shapes.every((shape) => Array.isArray(shape) && shape.every(isCount)), `the outputs for ${size}`);
    const shapeOf = (output) => (Object.hasOwn(outputs, output) ? outputs[output].shape : null);
    must(shapeOf(check?.[0]) && Array.isArray(check[1]) && check[1].length && check[1].every(Number.isFinite), `what torch gives for ${size}`);
    must(grid === null || Array.isArray(grid) && grid.length === 2 && grid.every(isCount) &&
      height % grid[0] === 0 && width % grid[1] === 0, `the grid for ${size}, ${grid}`);
    const cells = grid ? product(grid) : -1, is = (output, fits) => {
      const shape = shapeOf(output);
      must(shape && fits(shape), `the shape of ${output} for ${size}, ${shape?.join(" × ") ?? "which is not there"}`);
    };
    for (const { tokens, attention } of layers) {
      if (tokens) is(tokens, ([one, n, width, more]) => one === 1 && [cells, cells + prefix].includes(n) && width && !more);
      if (attention) is(attention, ([one, heads, n, keys]) => one === 1 && heads && n === cells + prefix && keys === n);
    }
    for (const { output, classes, kinds } of Object.values(answers)) {
      is(output, (shape) => shape[0] === 1 && shape.length === 2 && [classes, kinds].every((each) => !each || each.length === shape[1]));
    }
    if (found.map) is(found.map[0], (shape) => product(shape) === height * width);
    if (found.embedded) is(found.embedded, () => true);
  }
  const bytes = bytesOf(filesOf(found));
  if (bytes > MOST) {
    throw new Error(`${name} has ${megabytes(bytes, 0)} MB, and a page takes ${megabytes(MOST, 0)} MB: export it with --precision int8, or take a smaller model.`);
  }
  return found;
}

/** The picture of `pattern` in page_model.py, three channels. */
export function patternOf(height, width) {
  return Uint8Array.from({ length: 3 * height * width }, (_, i) => {
    const c = Math.floor(i / height / width), y = Math.floor(i / width) % height, x = i % width;
    const wave = (Math.floor(512 * x * (c + 1) / width) + Math.floor(512 * y * (3 - c) / height)) % 512;
    return Math.min(wave, 511 - wave);
  });
}

/** How far outputs are from torch's, of its largest number; throws where they are of another shape than was said, or no numbers. */
export function apartFrom({ outputs: said, check: [name, wanted] }, given) {
  for (const [output, { shape }] of Object.entries(said)) {
    const dims = given[output]?.dims;
    if (!dims || dims.join() !== shape.join()) {
      throw new Error(`manifest.json says that ${output} is ${shape.join(" × ")}, and the graph gives ${dims?.join(" × ") ?? "none"}: export the model again.`);
    }
  }
  const most = Math.max(...wanted.map(Math.abs)) || 1;
  const apart = Math.max(...wanted.map((value, i) => Math.abs(value - given[name].data[i]))) / most;
  if (!Number.isFinite(apart)) throw new Error(`On a test picture ${name} holds no numbers where torch gives some: export the model again.`);
  return apart;
}

export const hexOf = async (content) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", content))]
  .map((b) => b.toString(16).padStart(2, "0")).join("");

/** Whether these are the bytes that were written; only a page that came safely computes digests. */
export const isWhole = async (content, { bytes, sha256 }) => content.length === bytes &&
  (!crypto.subtle || await hexOf(content) === sha256);
