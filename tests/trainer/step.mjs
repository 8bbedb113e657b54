// A line of JSON in, one out: training steps from given weights, and what they were on the way; or as many steps
// of the last model again, to be timed.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , home] = process.argv;
const { trainer } = await import(`${home}/trainer.js`);
const { layout } = await import(`${home}/layout.js`);
const wasm = readFileSync(`${home}/trainer.wasm`);

let again;

for await (const line of createInterface({ input: process.stdin })) {
  const { settings, values, images, labels, rate, decay, order, times } = JSON.parse(line);
  if (times) {
    for (let i = 0; i < times; i++) again();
    console.log("{}");
    continue;
  }
  const { build } = trainer({ postMessage() {} });
  const model = build({ wasm, ...settings });
  model.parameters().set(values);
  if (order) model.arrange(order);
  const losses = [];
  let gradients, logits, once;
  images.forEach((batch, i) => {
    const said = model.forward(Float32Array.from(batch), Boolean(order));
    logits ??= [...said];
    losses.push(model.backward(labels[i], settings.smoothing, settings.twice));
    gradients ??= [...model.gradients()];
    model.update(i + 1, rate, decay);
    once ??= [...model.parameters()];
  });
  const batch = Float32Array.from(images[0]);
  let step = images.length;
  again = () => {
    model.forward(batch, Boolean(order));
    model.backward(labels[0], settings.smoothing);
    model.update(++step, rate, decay);
  };
  console.log(JSON.stringify({ shapes: layout(settings), losses, gradients, logits, once }));
}
