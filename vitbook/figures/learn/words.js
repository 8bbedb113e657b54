import { countOf } from "../../trainer/layout.js";
import { CHANGES, plainOf } from "./run.js";

const GOALS = [0.5, 0.75, 0.9, 0.95, 0.97];
export const GUESSES = { more: "more than plain", same: "about as many", fewer: "fewer than plain" };
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
export const counted = (number) => number.toLocaleString("en");
export const named = (kind) => CHANGES[kind]?.run ?? "plain";

/** What came of two runs, against what the reader guessed: a difference within what chance makes is none. */
export function verdict(runs, { labels }, guess) {
  if (!runs.every(({ told }) => told.length)) return "";
  const [plain, other] = runs.map(({ told }) => told.at(-1)), { run, why } = CHANGES[runs[1].kind];
  const [up, down] = [[other, plain], [plain, other]].map(([one, two]) =>
    labels.reduce((sum, label, i) => sum + (one.answers[i] === label && two.answers[i] !== label), 0));
  const came = Math.abs(up - down) <= 2 * Math.sqrt(up + down) ? "same" : up > down ? "more" : "fewer";
  const told = `Plain it reads ${percent(plain.accuracy)}, ${run} ${percent(other.accuracy)}` + (came !== "same" ? ". "
    : up === down ? ": the same number. " : `: ${Math.abs(up - down)} digits of ${labels.length} apart, which other first weights may turn round. `);
  const right = !guess ? "" : guess === came ? "You guessed right. " : `You guessed “${GUESSES[guess]}”, and it is “${GUESSES[came]}”. `;
  return `${told}${right}${why} `;
}

/** What a screen reader is told: where something new has begun, not every number on the way. */
export function milestones({ phase, runs, trouble, held }, data, { size, seed, guess }) {
  const last = runs.at(-1)?.told.at(-1);
  if (trouble && (phase !== "done" || !last)) return trouble;
  if (phase === "fresh" && last) return `The next one is ${size} and begins with first weights ${seed + 1} of 5. Until then the last one stays in sight. `;
  if (phase === "fresh") return `Its ${counted(countOf(plainOf(data, size)))} weights are drawn by chance ` +
    `(first weights ${seed + 1} of 5): it guesses, and reads about one digit in ten. `;
  if (!last) return "It starts. ";
  const who = runs.length < 2 ? "It" : `The model ${named(runs[1].kind)}`;
  const passed = GOALS.filter((goal) => runs.at(-1).told.some(({ accuracy }) => accuracy >= goal)).at(-1);
  if (phase === "done") return `${trouble}${runs.length > 1 ? verdict(runs, held, guess) : `After ${counted(last.images)} images it reads ` +
    `${percent(last.accuracy)} of the held-out digits. `}It is yours: draw for it, go back in time, or keep it. `;
  if (phase === "paused") return "Paused. ";
  return passed ? `${who} has passed ${Math.round(100 * passed)} %. ` : `${who} is in training. `;
}
