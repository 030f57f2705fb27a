// The list of what arrives: newest first, bounded, drawn at most once per frame.

import { argumentsText, clock } from "./format.mjs";

/** Rows shown, and entries kept per target. */
export const maxRows = 200;

/**
 * @typedef {object} Entry
 * @property {number} n counts all entries, for their order
 * @property {Date} at
 * @property {string} target
 * @property {unknown[]} args
 */

export class Messages {
  #body;
  #drawn;
  #count = 0;
  #paused = false;
  #scheduled = false;
  /** Oldest first. @type {Map<string, Entry[]>} */ #kept = new Map();
  /** Arrived since the last drawing, of shown targets only. @type {Entry[]} */ #fresh = [];
  /** @type {Set<string>} */ #hidden = new Set();

  /** @param {HTMLTableSectionElement} body @param {(rows: number) => void} drawn called after each drawing */
  constructor(body, drawn) {
    this.#body = body;
    this.#drawn = drawn;
  }

  get paused() {
    return this.#paused;
  }

  /** @param {string} target @param {unknown[]} args */
  add(target, args) {
    const entry = { n: ++this.#count, at: new Date(), target, args };
    const kept = this.#kept.get(target) ?? [];
    this.#kept.set(target, kept);
    push(kept, entry);
    if (this.#hidden.has(target)) return;
    push(this.#fresh, entry);
    this.#schedule();
  }

  clear() {
    this.#kept.clear();
    this.#redraw();
  }

  /** While paused the list stands still; what arrives is drawn afterwards. @param {boolean} on */
  pause(on) {
    this.#paused = on;
    this.#schedule();
  }

  /** @param {string} target @param {boolean} shown */
  show(target, shown) {
    if (shown) this.#hidden.delete(target);
    else this.#hidden.add(target);
    this.#redraw();
  }

  /** @param {string} target */
  forget(target) {
    this.#hidden.delete(target);
    this.#kept.delete(target);
    this.#redraw();
  }

  #schedule() {
    if (this.#scheduled || this.#paused) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (!this.#paused) this.#draw();
    });
  }

  #draw() {
    this.#body.prepend(...this.#fresh.splice(0).reverse().map(row));
    while (this.#body.rows.length > maxRows) this.#body.deleteRow(-1);
    this.#drawn(this.#body.rows.length);
  }

  /** Draws everything anew; a choice of what is shown counts during a pause, too. */
  #redraw() {
    this.#fresh = [];
    const shown = [...this.#kept].filter(([target]) => !this.#hidden.has(target)).flatMap(([, entries]) => entries);
    shown.sort((a, b) => b.n - a.n);
    this.#body.replaceChildren(...shown.slice(0, maxRows).map(row));
    this.#drawn(this.#body.rows.length);
  }
}

/** @param {Entry[]} entries @param {Entry} entry */
function push(entries, entry) {
  entries.push(entry);
  if (entries.length > maxRows) entries.shift();
}

/** @param {Entry} entry */
function row(entry) {
  const time = document.createElement("time");
  time.dateTime = entry.at.toISOString();
  time.textContent = clock(entry.at);
  const code = document.createElement("code");
  code.textContent = argumentsText(entry.args);
  const target = document.createElement("th");
  target.scope = "row";
  target.textContent = entry.target;
  target.title = entry.target;
  const when = document.createElement("td");
  when.append(time);
  const what = document.createElement("td");
  what.append(code);
  const tr = document.createElement("tr");
  tr.append(when, target, what);
  return tr;
}
