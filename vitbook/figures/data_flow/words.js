import { inWords, shareTold } from "../parts/numbers.js";
import { layerOf } from "./scenes.js";

/**
 * What is said of a step and of the followed patch, with the shapes of the data.
 * @param {object} data  of `data_flow`
 * @param {[number, number][]} looks  tokens that the patch looks at most, and weights; in a layer
 */
export function flowSentence(data, step, patch, looks) {
  const { grid: [rows, columns], patch: side, channels, prefix, width, names } = data;
  const count = rows * columns, numbers = side ** 2 * channels, layer = layerOf(data, step);
  if (looks.length) {
    const [token, weight] = looks[0], sum = looks.reduce((total, [, each]) => total + each, 0);
    const most = token < prefix ? "the class token" : token - prefix === patch ? "itself"
      : inWords(token - prefix, columns);
    return `Layer ${layer} mixes the tokens. The lines carry ${shareTold(sum)} of the ` +
      `framed token’s attention; the thickest, ${shareTold(weight)}, leads to ${most}.`;
  }
  return [
    `The photograph is ${rows * side} × ${columns * side} pixels of ${channels} numbers each. ` +
      "Follow the framed patch, or click another.",
    `It is cut into ${rows} × ${columns} = ${count} patches of ${side} × ${side} × ${channels} = ` +
      `${numbers} numbers.`,
    `Row by row the patches line up. The framed one, ${inWords(patch, columns)}, is number ` +
      `${patch + 1} of ${count}.`,
    `One matrix makes ${width} numbers of each patch’s ${numbers}: a token. ` +
      `${prefix ? "A token without a patch, the class token, joins in front, and e" : "E"}ach gets its position added: ` +
      `${count + prefix} × ${width} numbers.`,
  ][step] ?? (names ? `${data.meaning} Most goes to ${names[0][0]}: ${shareTold(names[0][1])}.`
    : "The tokens return to their positions and become " +
    `${data.answer.join(" × ")} numbers, bright ${data.meaning}. The framed patch: ` +
    `${data.means[patch].toFixed(2)} of at most 1.`);
}
