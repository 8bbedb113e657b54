// A line of JSON in, one out: three training steps from given weights, and what they were on the way.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , home] = process.argv;
const { trainer } = await import(`${home}/trainer.js`);
const wasm = readFileSync(`${home}/trainer.wasm`);

for await (const line of createInterface({ input: process.stdin })) {
  const { settings, values, images, labels, rate, decay, order } = JSON.parse(line);
  const { build, layout } = trainer({ postMessage() {} });
  const model = build({ wasm, ...settings });
  model.parameters().set(values);
  if (order) model.arrange(order);
  const losses = [];
  let gradients, logits, once;
  images.forEach((batch, i) => {
    const said = model.forward(Float32Array.from(batch), Boolean(order));
    logits ??= [...said];
    losses.push(model.backward(labels[i], settings.smoothing));
    gradients ??= [...model.gradients()];
    model.update(i + 1, rate, decay);
    once ??= [...model.parameters()];
  });
  console.log(JSON.stringify({ shapes: layout(settings), losses, gradients, logits, once }));
}
