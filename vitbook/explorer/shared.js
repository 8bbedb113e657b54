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

/** Put the live picture after the still one. */
export function stage(root, ...children) {
  const live = node("div", { class: "vb-live" }, ...children);
  root.querySelector(".vb-still").after(live);
  return live;
}

export const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));

/** Weights to colours along the square root, so that small ones can be told apart. */
export function heat(stops) {
  const table = stops.map(rgb);
  return (weight, top) => {
    const place = Math.sqrt(Math.min(weight / top, 1)) * (table.length - 1);
    const low = Math.min(Math.floor(place), table.length - 2);
    return table[low].map((c, i) => c + (place - low) * (table[low + 1][i] - c));
  };
}

/** Fill a canvas of columns x rows pixels; `color(row, column)` gives [r, g, b] or [r, g, b, a]. */
export function paint(canvas, rows, columns, color) {
  set(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const [r, g, b, a = 255] = color(Math.floor(i / columns), i % columns);
    image.data.set([r, g, b, a], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/** A small grey picture as dots whose area is its ink, so that the colours under it stay true. */
export function halftone(canvas, rows, columns, ink) {
  const unit = 32;
  set(canvas, { width: columns * unit, height: rows * unit });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.strokeStyle = "rgb(0 0 0 / .7)";
  context.lineWidth = 2;
  for (let i = 0; i < rows * columns; i++) {
    if (!ink[i]) continue;
    const [x, y] = [i % columns + 0.5, Math.floor(i / columns) + 0.5];
    context.beginPath();
    context.arc(x * unit, y * unit, 0.36 * unit * Math.sqrt(ink[i] / 255), 0, 7);
    context.fill();
    context.stroke();
  }
}

/** Base64 to bytes. */
export const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

const STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
};
export const step = (event) => STEPS[event.key];

/** A finger on this moves it and not the page: inside a drawing `touch-action` does not hold. */
export const hold = (handle) =>
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });

/**
 * A grid of buttons with one tab stop, walked by the arrow keys.
 * @param {{rows: number, columns: number, control: string, label: string,
 *   name: (row: number, column: number) => string,
 *   pick: (row: number, column: number, event?: Event) => void, choice?: boolean}} options
 *   `choice`: the buttons exclude each other, and walking onto one picks it.
 */
export function grid({ rows, columns, control, label, name, pick, choice = true }) {
  const cells = [];
  const focus = (row, column) => {
    cells.forEach((cell, i) => (cell.tabIndex = i === row * columns + column ? 0 : -1));
    cells[row * columns + column].focus();
  };
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      cells.push(node("button", {
        type: "button", role: choice && "radio", "aria-label": name(row, column), tabindex: -1,
        onclick: (event) => pick(row, column, event),
        onkeydown: (event) => {
          const [down, right] = step(event) ?? [0, 0];
          if (!down && !right) return;
          event.preventDefault();
          // In a single row up and down walk too, as in any group of radio buttons.
          const next = rows === 1 ? [0, column + right + down] : [row + down, column + right];
          if (next[0] < 0 || next[0] >= rows || next[1] < 0 || next[1] >= columns) return;
          focus(...next);
          if (choice) pick(...next);
        },
      }));
    }
  }
  cells[0].tabIndex = 0;
  const element = node("div", {
    class: "vb-grid", role: choice ? "radiogroup" : "group", "aria-label": label,
    "data-control": control, style: `--columns: ${columns}; --rows: ${rows}`,
  }, ...cells);
  /** Mark a cell as the chosen one; -1 for none. */
  const choose = (index) => cells.forEach((cell, i) => {
    cell.setAttribute("aria-checked", i === index);
    if (index >= 0) cell.tabIndex = i === index ? 0 : -1;
  });
  return { element, cells, choose };
}

/** Find this script's figure, get its data, and replace the still picture by the live one. */
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
      `The live figure could not start (${reason}); the picture shows its default state.`));
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
  const fetchData = () => {
    const known = window.vitbookData?.[key];
    if (known) return start(known);
    document.head.append(node("script", {
      src,
      onload: () => {
        const data = window.vitbookData?.[key];
        data ? start(data) : fail(`its data file ${src} does not hold ${key}`);
      },
      onerror: () => fail(`its data file ${src} is missing`),
    }));
  };

  if (block.textContent.trim()) {
    try {
      return start(JSON.parse(block.textContent));
    } catch (error) {
      return fail(error.message);
    }
  }
  if (!src) return fail("it came without data");
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    fetchData();
  }, { rootMargin: "600px" });
  near.observe(root);
}
