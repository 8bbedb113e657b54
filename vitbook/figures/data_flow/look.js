import { paint } from "../parts/paint.js";
import { clamp } from "../parts/numbers.js";
import { canvas } from "../parts/parts.js";
import { colorAxes } from "../parts/token_colors.js";
import { patchMeans, veilAt } from "../parts/veil.js";

const LOW = 0.02, HIGH = 0.98; // as in colors.py
// Oklab, as there: to the roots of the cones' answers, from their cubes to linear RGB, and the part
// of it that is used.
const LAB_TO_CONES = [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]];
const CONES_TO_RGB = [
  [4.0767416621, -3.3077115913, 0.2309699292], [-1.2684380046, 2.6097574011, -0.3413193965],
  [-0.0041960863, -0.7034186147, 1.7076147010],
];
const LOWEST = [0.42, -0.12, -0.13], HIGHEST = [0.86, 0.14, 0.13];

const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, each, i) => sum + each * vector[i], 0));

/** The rotation nearest to a 3 x 3 matrix, by Newton's iteration for its polar decomposition. */
export function nearestRotation(matrix) {
  const scale = Math.hypot(...matrix.flat()) || 1;
  let now = matrix.map((row) => row.map((each) => each / scale));
  for (let round = 0; round < 60; round++) {
    const [a, b, c] = now;
    // The inverse, transposed, has the cofactors over the determinant.
    const cross = (u, v) => [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    const cofactors = [cross(b, c), cross(c, a), cross(a, b)];
    const determinant = a.reduce((sum, each, i) => sum + each * cofactors[0][i], 0);
    if (Math.abs(determinant) < 1e-12) return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    now = now.map((row, i) => row.map((each, j) => (each + cofactors[i][j] / determinant) / 2));
  }
  return now;
}

function calm(places) {
  const lab = places.map((place, i) => LOWEST[i] + place * (HIGHEST[i] - LOWEST[i]));
  const linear = times(CONES_TO_RGB, times(LAB_TO_CONES, lab).map((each) => each ** 3));
  return linear.map((each) => clamp(each, 0, 1)).map((each) =>
    Math.round(255 * (each <= 0.0031308 ? 12.92 * each : 1.055 * each ** (1 / 2.4) - 0.055)));
}

/** Between two neighbours in order, as numpy and torch have quantiles. */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b), at = share * (values.length - 1), low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

/** Less its mean, over its deviation, as a block takes it. */
function normalized(tokens, width) {
  const made = Float32Array.from(tokens);
  for (let row = 0; row < made.length; row += width) {
    const token = made.subarray(row, row + width), mean = token.reduce((sum, x) => sum + x, 0) / width;
    const spread = Math.sqrt(token.reduce((sum, x) => sum + (x - mean) ** 2, 0) / width + 1e-5);
    token.forEach((x, i) => (token[i] = (x - mean) / spread));
  }
  return made;
}

/** Colours of tokens by layer, as `layer_colors` of colors.py: three bytes a token. */
export function layerColors(layers, width, prefix) {
  const colors = [];
  let after = null;
  for (const layer of [...layers].reverse()) {
    const unit = normalized(layer, width), axes = colorAxes(unit.subarray(prefix * width), width);
    let found = Array.from({ length: unit.length / width }, (_, row) =>
      axes.map(({ axis }) => axis.reduce((sum, each, i) => sum + each * unit[row * width + i], 0)));
    const inside = () => found.slice(prefix);
    const means = [0, 1, 2].map((i) => inside().reduce((sum, row) => sum + row[i], 0) / inside().length);
    found = found.map((row) => row.map((each, i) => each - means[i]));
    if (after) {
      const turn = [0, 1, 2].map((i) => [0, 1, 2].map((j) =>
        inside().reduce((sum, row, cell) => sum + row[i] * after[cell][j], 0)));
      const rotation = nearestRotation(turn);
      found = found.map((row) => [0, 1, 2].map((j) => row.reduce((sum, each, i) => sum + each * rotation[i][j], 0)));
    } else {
      const skews = [0, 1, 2].map((i) => inside().reduce((sum, row) => sum + row[i] ** 3, 0));
      found = found.map((row) => row.map((each, i) => (skews[i] < 0 ? -each : each)));
    }
    after = inside();
    const ends = [0, 1, 2].map((i) => [LOW, HIGH].map((share) => quantile(after.map((row) => row[i]), share)));
    colors.unshift(found.flatMap((row) => calm(row.map((each, i) =>
      clamp((each - ends[i][0]) / Math.max(ends[i][1] - ends[i][0], 1e-12), 0, 1)))));
  }
  return Uint8Array.from(colors.flat());
}

/** The tokens that each patch looks at most, in the mean of the heads of each layer, largest first. */
export function strongest(maps, prefix, lines) {
  const seen = [], weights = [];
  for (const { dims: [, heads, queries, keys], data } of maps) {
    for (let query = prefix; query < queries; query++) {
      const row = Array.from({ length: keys }, (_, key) => [key, 0]);
      for (let head = 0; head < heads; head++) {
        const at = (head * queries + query) * keys;
        for (let key = 0; key < keys; key++) row[key][1] += data[at + key] / heads;
      }
      for (const [key, weight] of row.sort((a, b) => b[1] - a[1]).slice(0, lines)) {
        seen.push(key);
        weights.push(weight);
      }
    }
  }
  return { seen: Uint16Array.from(seen), weights };
}

const address = (size, color) => {
  const made = canvas();
  paint(made, ...size, color);
  return made.toDataURL();
};

/**
 * The data of a flow for another photograph, as the page computed it.
 * @param {object} data  of `data_flow`
 * @param {{planes: Uint8Array, size: [number, number], layers: Float32Array[], maps: {dims: number[],
 *   data: Float32Array}[], saliency: Float32Array, patch: number}} look
 */
export function flowOf(data, { planes, size, layers, maps, saliency, patch }) {
  const { prefix, lines, width } = data, grid = size.map((side) => side / data.patch), count = size[0] * size[1];
  const { seen, weights } = strongest(maps, prefix, lines);
  return {
    ...data, grid, answer: size, start: patch, colors: layerColors(layers, width, prefix),
    seen, weights, top: weights.reduce((top, each) => Math.max(top, each), 0),
    means: patchMeans(saliency, size, grid),
    photo: address(size, (i) => [planes[i], planes[count + i], planes[2 * count + i]]),
    veil: address(size, (i) => veilAt(saliency[i])),
  };
}
