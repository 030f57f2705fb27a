// The table of ticks: which instance is heard, and how steadily.

import { Beats } from "./chart.mjs";
import { count, instanceName, milliseconds } from "./format.mjs";

/** Instances kept; the one silent for longest makes room for a new one. */
const maxInstances = 16;
/** Milliseconds of silence after which an instance is shown as silent. */
const silence = 3500;
/** Milliseconds after which a silent instance is shown no longer. */
const forgotten = 5 * 60_000;
const colors = ["c1", "c2", "c3", "c4"];

/**
 * @typedef {object} Row
 * @property {number} last number of the last tick, NaN when it carries none
 * @property {boolean} unbroken whether the last tick came over the present connection
 * @property {number} missed numbers that never came
 * @property {number} delay milliseconds between sending and arrival, by two clocks
 * @property {number} seen when the last one came
 * @property {Map<number, number>} seconds ticks by second of the page's clock
 * @property {HTMLTableRowElement} tr
 * @property {Record<string, HTMLElement>} cells
 * @property {Beats} beats
 */

export class Ticks {
  #body;
  #made = 0;
  /** @type {Map<string, Row>} */ #rows = new Map();

  /** @param {HTMLTableSectionElement} body */
  constructor(body) {
    this.#body = body;
  }

  get size() {
    return this.#rows.size;
  }

  /**
   * Counts one tick. Anything that is not an object naming its instance is ignored.
   * @param {unknown} tick
   * @param {number} [now]
   */
  add(tick, now = Date.now()) {
    if (typeof tick !== "object" || tick === null) return;
    const { instance, n, at } = /** @type {Record<string, unknown>} */ (tick);
    if (typeof instance !== "string" || instance === "") return;
    const row = this.#rows.get(instance) ?? this.#make(instance);
    const number = Number(n);
    // A smaller number is an instance that began anew, not a loss.
    if (row.unbroken && number > row.last + 1) row.missed += number - row.last - 1;
    row.last = number;
    row.unbroken = true;
    row.delay = now - sentAt(at);
    row.seen = now;
    const second = Math.floor(now / 1000);
    row.seconds.set(second, (row.seconds.get(second) ?? 0) + 1);
  }

  /**
   * Redraws; call it once a second.
   * @param {boolean} live whether this page could hear anything
   * @param {number} [now]
   */
  render(live, now = Date.now()) {
    const first = Math.floor(now / 1000) - Beats.seconds + 1;
    for (const [id, row] of this.#rows) {
      if (now - row.seen > forgotten) {
        this.#drop(id);
        continue;
      }
      for (const second of row.seconds.keys()) if (second < first) row.seconds.delete(second);
      const counts = Array.from({ length: Beats.seconds }, (_, i) => row.seconds.get(first + i) ?? 0);
      const quiet = now - row.seen > silence;
      const age = Math.round((now - row.seen) / 1000);
      row.cells.state.textContent = live ? (quiet ? `silent ${age} s` : "ticking") : `unknown for ${age} s`;
      row.cells.state.className = `pill ${live ? (quiet ? "err" : "ok") : "unknown"}`;
      row.cells.last.textContent = Number.isFinite(row.last) ? count(row.last) : "—";
      row.cells.missed.textContent = count(row.missed);
      row.cells.delay.textContent = `${milliseconds(row.delay)} ms`;
      row.tr.classList.toggle("stale", quiet || !live);
      const total = counts.reduce((sum, n) => sum + n, 0);
      row.beats.draw(counts, `${instanceName(id).name}: ${total} ticks in the last minute`);
    }
  }

  /** After a reconnect nobody knows what was sent meanwhile: count on from the next tick. */
  restart() {
    for (const row of this.#rows.values()) row.unbroken = false;
  }

  /** @param {string} instance @returns {Row} */
  #make(instance) {
    if (this.#rows.size >= maxInstances) this.#drop([...this.#rows].reduce((a, b) => (b[1].seen < a[1].seen ? b : a))[0]);
    const color = colors[this.#made++ % colors.length];
    const tr = document.createElement("tr");
    const cells = {};
    const name = document.createElement("th");
    name.scope = "row";
    name.title = instance;
    name.append(mark(color), label(instance));
    tr.append(name);
    for (const key of ["state", "last", "missed", "delay"]) {
      const td = document.createElement("td");
      if (key === "state") {
        cells[key] = document.createElement("span");
        td.append(cells[key]);
      } else {
        td.className = key === "last" ? "n" : "n second";
        cells[key] = td;
      }
      tr.append(td);
    }
    const beats = new Beats(color);
    const td = document.createElement("td");
    td.append(beats.svg);
    tr.append(td);
    this.#body.append(tr);
    const row = { last: NaN, unbroken: false, missed: 0, delay: NaN, seen: 0, seconds: new Map(), tr, cells, beats };
    this.#rows.set(instance, row);
    return row;
  }

  /** @param {string} id */
  #drop(id) {
    this.#rows.get(id)?.tr.remove();
    this.#rows.delete(id);
  }
}

/** @param {unknown} at @returns {number} milliseconds since 1970, NaN when it is no time */
function sentAt(at) {
  if (typeof at === "number") return at;
  return at instanceof Date ? at.getTime() : Date.parse(String(at));
}

/** @param {string} color */
function mark(color) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `mark ${color}`);
  svg.setAttribute("viewBox", "0 0 10 10");
  svg.setAttribute("aria-hidden", "true");
  const square = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width: "10", height: "10", rx: "3" })) square.setAttribute(key, value);
  svg.append(square);
  return svg;
}

/** @param {string} instance */
function label(instance) {
  const { name, tail } = instanceName(instance);
  const span = document.createElement("span");
  span.textContent = name;
  if (tail !== "") {
    const small = document.createElement("span");
    small.className = "muted mono tail";
    small.textContent = ` ${tail}`;
    span.append(small);
  }
  return span;
}
