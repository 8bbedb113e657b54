/**
 * A document that can only be built and written out: all that a figure asks for to draw its start.
 *
 * A method or a property that a figure calls or sets and that is not here ends the build, so that
 * no still is drawn wrong in silence. A browser is no part of building the book, and a whole
 * document of another library would bring a second package manager and still no canvas.
 */
import { Canvas } from "./canvas.js";

const VOID = new Set(["br", "img", "input"]);
const CONTROLS = new Set(["button", "input", "select"]);
// What a picture does not say: it cannot be walked, and nothing in it changes.
const OF_THE_LIVE = new Set(["aria-live", "data-control", "draggable", "tabindex", "type"]);
const WIDTH = 720; // px: a start is drawn for the width of a page

const escaped = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
const dashed = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** An object whose properties are kept by `keep(name, value)` and read by `get(name)`. */
const reflecting = (get, keep) => new Proxy(Object.preventExtensions({}), {
  get: (_, name) => name === "setProperty" ? keep : get(name),
  set: (_, name, value) => (keep(name, value), true),
});

class Element {
  constructor(name) {
    Object.assign(this, {
      name, parent: null, childNodes: [], attributes: new Map(), styles: new Map(),
      canvas: name === "canvas" ? new Canvas(this) : null,
    });
    this.dataset = reflecting((key) => this.attributes.get(`data-${dashed(key)}`),
      (key, value) => this.setAttribute(`data-${dashed(key)}`, value));
    this.style = reflecting((key) => this.styles.get(dashed(key)) ?? "",
      (key, value) => this.styles.set(dashed(key), value));
    ["dataset", "style"].forEach((part) => Object.defineProperty(this, part, { writable: false }));
  }

  getAttribute(name) { return this.attributes.get(name) ?? null; }
  setAttribute(name, value) {
    if (name === "id") throw new Error(`id="${value}" would stand twice in the page`);
    if (name === "style") this.styles.clear();
    if (this.canvas && (name === "width" || name === "height")) this.canvas.clear();
    this.attributes.set(name, String(value));
  }
  removeAttribute(name) { this.attributes.delete(name); }
  toggleAttribute(name, on) { on ? this.attributes.set(name, "") : this.attributes.delete(name); }
  get classList() {
    const names = () => new Set((this.getAttribute("class") ?? "").split(" ").filter(Boolean));
    const change = (how) => { const all = names(); how(all); this.setAttribute("class", [...all].join(" ")); };
    return {
      add: (...given) => change((all) => given.forEach((name) => all.add(name))),
      remove: (...given) => change((all) => given.forEach((name) => all.delete(name))),
      toggle: (name, on = !names().has(name)) => change((all) => on ? all.add(name) : all.delete(name)),
      contains: (name) => names().has(name),
    };
  }

  get children() { return this.childNodes.filter((child) => child instanceof Element); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get textContent() { return this.childNodes.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.replaceChildren(text); }
  taken(children) {
    const shown = children.filter((child) => child !== "");
    return shown.map((child) => child instanceof Element ? (child.remove(), Object.assign(child, { parent: this })) : String(child));
  }
  append(...children) {
    const all = this.taken(children); // first, since a child may move within its parent
    this.childNodes.push(...all);
  }
  replaceChildren(...children) {
    this.children.forEach((child) => (child.parent = null));
    this.childNodes = [];
    this.append(...children);
  }
  remove() {
    if (this.parent) this.parent.childNodes = this.parent.childNodes.filter((child) => child !== this);
    this.parent = null;
  }
  beside(step, children) {
    const all = this.parent.taken(children), at = this.parent.childNodes.indexOf(this) + step;
    this.parent.childNodes.splice(at, 0, ...all);
  }
  before(...children) { this.beside(0, children); }
  after(...children) { this.beside(1, children); }

  /** Of `.class`, or `.class[name="value"]`. */
  querySelector(selector) {
    const [, kind, name, value] = selector.match(/^\.([\w-]+)(?:\[([\w-]+)="(.*)"\])?$/);
    const fits = (each) => each.classList.contains(kind) && (!name || each.getAttribute(name) === value);
    for (const child of this.children) {
      const found = fits(child) ? child : child.querySelector(selector);
      if (found) return found;
    }
    return null;
  }
  closest() { return null; }
  contains() { return false; }
  addEventListener() {}
  getContext() { return this.canvas; }
  get clientWidth() { return WIDTH; }
  getBoundingClientRect() { return { left: 0, top: 0, width: WIDTH, height: WIDTH }; }

  set value(value) {
    if (this.name !== "select") return this.setAttribute("value", value);
    const choose = (each) => each.name === "option"
      ? each.toggleAttribute("selected", each.getAttribute("value") === String(value))
      : each.children.forEach(choose);
    choose(this);
  }
  get value() { return this.getAttribute("value") ?? ""; }

  /** As HTML: a canvas is the picture on it, and a control can be seen and not used. */
  write() {
    const name = this.canvas ? "img" : this.name, attributes = new Map(this.attributes);
    OF_THE_LIVE.forEach((each) => name === "input" && each === "type" || attributes.delete(each));
    const styles = [...this.styles].map(([key, value]) => `${key}: ${value}`);
    const style = [attributes.get("style"), ...styles].filter(Boolean).join("; ");
    if (style) attributes.set("style", style);
    if (name === "a") attributes.delete("href"); // it leads to a state of the live figure
    if (CONTROLS.has(name)) attributes.set("disabled", "");
    if (this.canvas) {
      const address = this.canvas.address();
      if (!address) return ""; // nothing was drawn on it
      ["width", "height"].forEach((each) => attributes.delete(each));
      attributes.set("class", `${attributes.get("class") ?? ""} vb-canvas`.trim());
      attributes.set("src", address).set("alt", "");
    }
    const told = [...attributes].map(([key, value]) => value === "" && key !== "alt"
      ? ` ${key}` : ` ${key}="${escaped(value)}"`).join("");
    if (VOID.has(name)) return `<${name}${told}>`;
    return `<${name}${told}>${this.inside()}</${name}>`;
  }
  inside() {
    return this.childNodes.map((child) => child instanceof Element ? child.write() : escaped(child)).join("");
  }
}

for (const name of ["alt", "src", "title"]) {
  Object.defineProperty(Element.prototype, name, {
    get() { return this.getAttribute(name) ?? ""; }, set(value) { this.setAttribute(name, value); },
  });
}
for (const name of ["disabled", "hidden"]) {
  Object.defineProperty(Element.prototype, name, {
    get() { return this.attributes.has(name); }, set(on) { this.toggleAttribute(name, on); },
  });
}
Object.defineProperty(Element.prototype, "tabIndex", { set() {} });

/** Make this the document of all that is loaded from now on. */
export function install() {
  Object.assign(globalThis, {
    window: globalThis,
    document: {
      readyState: "complete",
      createElement: (name) => Object.preventExtensions(new Element(name)),
      createElementNS: (_, name) => Object.preventExtensions(new Element(name)),
      querySelectorAll: () => [],
      addEventListener() {},
    },
    location: { hash: "", href: "" },
    addEventListener() {},
    matchMedia: () => ({ matches: true, addEventListener() {} }),
    ResizeObserver: class { observe() {} },
  });
}

/** An element of the page around the figures, to which a figure may add what it tells others. */
export const element = (name, attributes = {}, ...children) => {
  const made = new Element(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
