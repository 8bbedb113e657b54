/** An HTML element, or with `svg:` before its name an SVG one; `on…` are listeners. */
export function node(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  set(made, attributes).append(...children);
  return made;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === false || value == null) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

/** Data that lies in a script of its own, which also a page opened from a file may load. */
export function loadData(key, src, start, fail) {
  const known = () => window.vitbookData?.[key];
  if (known()) return start(known());
  document.head.append(node("script", {
    src,
    onload: () => known() ? start(known()) : fail(`its data file ${src} does not hold ${key}`),
    onerror: () => fail(`its data file ${src} is missing`),
  }));
}

/** Find this script's figure, get its data, and replace the still by the live one. */
export function boot(id, render) {
  // A page may hold the same output twice, the same id included: take one that nobody took.
  const root = [...document.querySelectorAll(`[id="${id}"]`)].find((r) => !r.dataset.booted);
  if (!root) return;
  root.dataset.booted = "true";
  const still = root.querySelector(".vb-still");
  const block = root.querySelector(".vb-data");
  const { key, src } = block.dataset;

  const fail = (reason) => {
    root.querySelector(".vb-live")?.remove();
    still.hidden = false;
    still.after(node("p", { class: "vb-error", role: "status" },
      `The live figure could not start (${reason}).`));
  };
  const start = (data) => {
    try {
      still.hidden = true;
      render(root, data);
      root.dataset.ready = "true";
    } catch (error) {
      fail(error.message);
    }
  };
  if (block.textContent.trim()) {
    try {
      return start(JSON.parse(block.textContent));
    } catch (error) {
      return fail(error.message);
    }
  }
  if (!src) return fail("it came without data");
  const fetchData = () => loadData(key, src, start, fail);
  // A link to a state of a figure leads to it, however far down the page it lies.
  if (location.hash.includes("?")) return fetchData();
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    fetchData();
  }, { rootMargin: "600px" });
  near.observe(root);
}
