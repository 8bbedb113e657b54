import { countOf } from "../../trainer/layout.js";
import { called, CHANGES, plainOf } from "./run.js";

const GOALS = [0.5, 0.75, 0.9, 0.95, 0.97];
export const GUESSES = { chance: "no more than chance", fewer: "fewer than the plain one", same: "about as many",
  more: "more than the plain one" };
export const guessesOf = (kind) => CHANGES[kind]?.guesses ?? ["fewer", "same", "more"];
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
export const counted = (number) => number.toLocaleString("en");

/**
 * What came of two runs, against what the reader guessed: a difference within what chance makes is none, and less than
 * twice what guessing reads is no more than chance, where that can be guessed.
 */
export function verdict(runs, { labels }, guess, classes) {
  if (!runs.every(({ told }) => told.length)) return "";
  const [plain, other] = runs.map(({ told }) => told.at(-1)), { kind } = runs[1];
  const [up, down] = [[other, plain], [plain, other]].map(([one, two]) =>
    labels.reduce((sum, label, i) => sum + (one.answers[i] === label && two.answers[i] !== label), 0));
  const came = guessesOf(kind).includes("chance") && other.accuracy < 2 / classes ? "chance"
    : Math.abs(up - down) <= 2 * Math.sqrt(up + down) ? "same" : up > down ? "more" : "fewer";
  const told = `The plain model reads ${percent(plain.accuracy)} of the held-out digits; ${called(kind)} reads ${percent(other.accuracy)}. ` +
    (came !== "same" ? "Other first weights may give another difference. " : up === down ? "Both read as many. "
    : `They differ by ${Math.abs(up - down)} of ${labels.length} digits: with other first weights it may be the other way round. `);
  const right = !guess ? "" : guess === came ? "You guessed right. " : `You guessed “${GUESSES[guess]}”, and it is “${GUESSES[came]}”. `;
  return `${told}${right}${CHANGES[kind].why} `;
}

/**
 * What a screen reader is told: where something new has begun, not every number on the way. `then` is what was told at
 * an earlier time that is shown.
 */
export function milestones({ phase, runs, trouble, held }, data, { size, seed, guess }, then) {
  const last = runs.at(-1)?.told.at(-1);
  if (trouble && (!["training", "done"].includes(phase) || !last)) return trouble;
  if (phase === "fresh" && last) return `The next training begins anew: ${size}, first weights ${seed + 1} of 5. Until then you see the last one. `;
  if (phase === "fresh") return `The model's ${counted(countOf(plainOf(data, size)))} weights are drawn by chance ` +
    `(first weights ${seed + 1} of 5). So it guesses, and reads about one digit in ten. `;
  if (!last) return "The training starts. ";
  const who = runs.length < 2 ? "The model" : called(runs[1].kind).replace(/^./, (c) => c.toUpperCase());
  const passed = GOALS.filter((goal) => runs.at(-1).told.some(({ accuracy }) => accuracy >= goal)).at(-1);
  if (phase === "done" && then) return `Back in time: after ${counted(then.images)} images this model read ${percent(then.accuracy)}. `;
  if (phase === "done") return `${trouble}${runs.length > 1 ? verdict(runs, held, guess, data.classes.length) : `After ${counted(last.images)} images the model reads ` +
    `${percent(last.accuracy)} of the held-out digits. `}Now draw a digit, go back in time, or keep a model as a file. `;
  if (phase === "paused") return "Paused. ";
  return trouble + (passed ? `${who} reads more than ${Math.round(100 * passed)} % of the held-out digits. ` : `${who} is learning. `);
}
