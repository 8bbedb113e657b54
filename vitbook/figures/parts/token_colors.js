/**
 * The directions in which tokens differ most, by power iteration, and what brings a token's place
 * along each to a colour from 0 to 255. Between the second and the last but second hundredth the
 * colours are even; beyond they are cut.
 * @param {Float32Array} tokens  "patches width"
 */
export function colorAxes(tokens, width, count = 3, rounds = 40) {
  const rows = tokens.length / width, mean = new Float64Array(width), left = Float64Array.from(tokens);
  for (let i = 0; i < left.length; i++) mean[i % width] += left[i] / rows;
  for (let i = 0; i < left.length; i++) left[i] -= mean[i % width];
  const along = (axis) => Float64Array.from({ length: rows }, (_, r) => {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += left[r * width + i] * axis[i];
    return sum;
  });
  return Array.from({ length: count }, (_, number) => {
    let axis = Float64Array.from({ length: width }, (_, i) => Math.sin(i + 1 + number));
    for (let round = 0; round < rounds; round++) {
      const places = along(axis), next = new Float64Array(width);
      for (let r = 0; r < rows; r++) for (let i = 0; i < width; i++) next[i] += places[r] * left[r * width + i];
      const length = Math.hypot(...next);
      if (!length) break; // all tokens are alike
      axis = next.map((value) => value / length);
    }
    // The sign of an axis means nothing: its largest part is positive.
    const largest = axis.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
    if (largest < 0) axis = axis.map((value) => -value);
    const places = along(axis), sorted = Array.from(places).sort((a, b) => a - b);
    for (let r = 0; r < rows; r++) for (let i = 0; i < width; i++) left[r * width + i] -= places[r] * axis[i];
    const low = sorted[Math.floor(rows * 0.02)], high = sorted[Math.ceil(rows * 0.98) - 1];
    let offset = 0;
    for (let i = 0; i < width; i++) offset += mean[i] * axis[i];
    return { axis, low: low + offset, high: high + offset };
  });
}

/** [red, green, blue] of a token. */
export const tokenColor = (axes, tokens, width, row) => axes.map(({ axis, low, high }) => {
  let place = 0;
  for (let i = 0; i < width; i++) place += tokens[row * width + i] * axis[i];
  return Math.max(0, Math.min(255, 255 * (place - low) / (high - low || 1)));
});
