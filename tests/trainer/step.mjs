// A line of JSON in, one out: training steps from given weights, and what they were on the way; or as many steps
// of the last model again, to be timed.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , home] = process.argv;
const { layout } = await import(`${home}/layout.js`);
const { arranged, modelOf } = await import(`${home}/model.js`);

let again;

for await (const line of createInterface({ input: process.stdin })) {
  const { compiled, settings, values, images, labels, rate, decay, order, held, times } = JSON.parse(line);
  if (times) {
    for (let i = 0; i < times; i++) again();
    console.log("{}");
    continue;
  }
  const model = modelOf({ wasm: readFileSync(`${home}/${compiled}`), ...settings });
  model.parameters().set(values);
  const batches = images.map((batch) => (order ? arranged(Float32Array.from(batch), settings, order) : Float32Array.from(batch)));
  const losses = [];
  let gradients, logits, once;
  batches.forEach((batch, i) => {
    const said = model.forward(batch, true);
    logits ??= [...said];
    losses.push(model.backward(labels[i], settings.smoothing, settings.twice));
    gradients ??= [...model.gradients()];
    model.update(i + 1, rate, decay);
    once ??= [...model.parameters()];
  });
  const last = [...model.parameters()], evaluated = [...model.forward(held ? Float32Array.from(held) : batches[0])];
  let step = batches.length;
  again = () => {
    model.forward(batches[0], true);
    model.backward(labels[0], settings.smoothing);
    model.update(++step, rate, decay);
  };
  console.log(JSON.stringify({ shapes: layout(settings), losses, gradients, logits, once, last, evaluated }));
}
