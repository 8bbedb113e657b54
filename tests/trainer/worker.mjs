// JSON in, JSON out: two runs of the worker to their end, the second of which goes on from the first's half way.
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";

const [, , home] = process.argv;
const { trainer } = await import(`${home}/trainer.js`);
const { compiled, settings, data } = JSON.parse(await text(process.stdin));
const given = { images: Float32Array.from(data.images), labels: Int32Array.from(data.labels) };
const wasm = readFileSync(`${home}/${compiled}`), half = settings.steps / 2;

/** What a run says at its first step, half way and at its end. */
const runFrom = (state) => new Promise((resolve, reject) => {
  const said = {}, scope = {};
  const ask = (kind, more = {}) => {
    let heard;
    const listening = scope.postMessage;
    scope.postMessage = (message) => (heard = message);
    scope.onmessage({ data: { kind, ...more } });
    scope.postMessage = listening;
    return heard;
  };
  scope.postMessage = ({ kind, step, reason }) => {
    if (kind === "failed") reject(new Error(reason));
    if (kind === "told" && step === 0) said.first = ask("weights");
    if (kind === "told" && step === half) said.state = ask("state").state;
    if (kind === "done") resolve({ ...said, last: ask("weights"), look: ask("look", { image: given.images.slice(0, settings.side ** 2) }) });
  };
  trainer(scope);
  scope.onmessage({ data: { kind: "start", number: 1, settings: { ...settings, wasm }, data: given, held: given, state } });
});

const once = await runFrom(), again = await runFrom(once.state);
console.log(JSON.stringify({ shapes: once.first.shapes, first: [...once.first.values], last: [...once.last.values],
  again: [...again.last.values], look: { ...once.look, logits: [...once.look.logits], table: once.look.table && [...once.look.table],
    filters: [...once.look.filters], maps: once.look.maps.map((heads) => heads.map((head) => [...head])) } }));
