/** Which of the page's figures of its kind this is: the first has no number in its link. */
const nameOf = (root, word) => {
  const { figure } = root.dataset;
  const at = [...document.querySelectorAll(`.vitbook-figure[data-figure="${figure}"]`)].indexOf(root);
  return at > 0 ? `${word}${at + 1}` : word;
};

/** A state as the part of a link after its #. */
export const address = (root, word, state) =>
  `#${nameOf(root, word)}?${Object.entries(state)
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : Number(value)}`).join("&")}`;

/**
 * Let a link lead to an address. While a page loads, the theme's ScrollSpy takes every link's part
 * after # for a selector, and ours is none: it comes after that.
 */
export function linkTo(link, href) {
  const give = () => link.setAttribute("href", href);
  if (document.readyState === "complete") give();
  else window.addEventListener("load", () => setTimeout(give));
}

/** What a link says of a state, as far as this figure has it: numbers from 0, and yes or no. */
export function parse(text, { photos, queries, layers, heads, alike }) {
  const limits = { photo: photos, query: queries, layer: layers, head: heads, nearest: 2, alike: alike ? 2 : 1 };
  const said = new URLSearchParams(text), state = {};
  for (const [key, limit] of Object.entries(limits)) {
    const value = Number(said.get(key) ?? NaN);
    if (!Number.isInteger(value) || value < 0 || value >= limit) continue;
    state[key] = key === "nearest" || key === "alike" ? value === 1 : value;
  }
  return state;
}

/** What a link says of a state: whole numbers between these limits, and no others. */
export function stated(text, limits) {
  const said = [...new URLSearchParams(text)].map(([key, value]) => [key, Number(value)]);
  return Object.fromEntries(said.filter(([key, value]) => Object.hasOwn(limits, key) &&
    Number.isInteger(value) && value >= limits[key][0] && value <= limits[key][1]));
}

/** Mail writes ? and = of a link as %3F and %3D; what such signs do not follow stays as it is. */
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Bring back what the page's address says, as `read` understands it, now and when it changes. */
export function restored(root, word, read, change) {
  const follow = () => {
    const [at, text] = unescaped(location.hash).split("?");
    if (at !== `#${nameOf(root, word)}` || !text) return;
    change(read(text));
    root.scrollIntoView();
  };
  window.addEventListener("hashchange", follow);
  follow();
}

/** Tell Python, if it listens: a hidden field of its widget holds what is chosen. */
export function tell(root, state) {
  const field = root.closest(".vitbook-choice")?.querySelector("input[type=text]");
  if (!field) return;
  const text = JSON.stringify(state);
  if (field.value === text) return;
  field.value = text;
  for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
}
