// Expressions over what a module exports: a line of JSON in, a line of JSON out.
import { createInterface } from "node:readline";
const plain = (_, value) => ArrayBuffer.isView(value) ? [...value]
  : value instanceof Set ? [...value] : Number.isNaN(value) ? "nan" : value;
for await (const line of createInterface({ input: process.stdin })) {
  const { module, expression, values } = JSON.parse(line);
  const known = { ...await import(module), ...values };
  let said;
  try {
    const run = new Function(...Object.keys(known), `return ${expression}`);
    said = { value: run(...Object.values(known)) };
  } catch (error) {
    said = { error: String(error) };
  }
  console.log(JSON.stringify(said, plain));
}
