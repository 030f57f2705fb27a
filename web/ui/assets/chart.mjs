// Two tiny charts, drawn as SVG elements.

const namespace = "http://www.w3.org/2000/svg";

/** @param {string} name @param {Record<string, string | number>} attributes */
function element(name, attributes) {
  const e = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, String(value));
  return e;
}

/** A line over the last `size` values, drawn into an svg of 160 x 26 units. */
export class Line {
  #svg;
  #size;
  /** @type {number[]} */ #values = [];

  /** @param {SVGElement} svg @param {number} [size] */
  constructor(svg, size = 60) {
    this.#svg = svg;
    this.#size = size;
  }

  /** @param {number} value NaN leaves a hole */
  push(value) {
    this.#values.push(value);
    if (this.#values.length > this.#size) this.#values.shift();
    this.#draw();
  }

  #draw() {
    const top = Math.max(...this.#values.filter(Number.isFinite), Number.MIN_VALUE);
    const step = 160 / (this.#size - 1);
    const offset = this.#size - this.#values.length;
    const parts = [];
    let part = [];
    this.#values.forEach((value, i) => {
      if (Number.isFinite(value)) part.push([(offset + i) * step, 24.5 - (value / top) * 22]);
      else if (part.length) parts.push(part.splice(0));
    });
    if (part.length) parts.push(part);
    this.#svg.replaceChildren(...parts.flatMap(drawPart));
  }
}

/** @param {number[][]} points */
function drawPart(points) {
  const text = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  if (points.length === 1) text.push(`${(points[0][0] + 0.1).toFixed(1)},${points[0][1].toFixed(1)}`);
  const [first, last] = [points[0][0].toFixed(1), points[points.length - 1][0].toFixed(1)];
  return [
    element("path", { d: `M${first},26L${text.join("L")}L${last},26Z` }),
    element("polyline", { points: text.join(" ") }),
  ];
}

/** One bar per second of the last minute: high when something came, a low mark when not. */
export class Beats {
  static seconds = 60;
  #bars;
  svg;

  /** @param {string} color class of the bars */
  constructor(color) {
    this.svg = element("svg", { class: `beats ${color}`, viewBox: `0 0 ${Beats.seconds * 4} 18`, preserveAspectRatio: "none", role: "img" });
    this.#bars = Array.from({ length: Beats.seconds }, (_, i) => element("rect", { x: i * 4, width: 3, rx: 1 }));
    this.svg.append(...this.#bars);
  }

  /** @param {number[]} counts one per second, oldest first, as many as there are bars @param {string} label */
  draw(counts, label) {
    const top = Math.max(...counts, 1);
    counts.forEach((n, i) => {
      const height = n === 0 ? 3 : 6 + (n / top) * 12;
      const bar = this.#bars[i];
      bar.setAttribute("y", String(18 - height));
      bar.setAttribute("height", String(height));
      bar.classList.toggle("none", n === 0);
    });
    this.svg.setAttribute("aria-label", label);
  }
}
