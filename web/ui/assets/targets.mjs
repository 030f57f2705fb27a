// Which targets the page listens for, and which of them the list shows.

import { byId, make } from "./dom.mjs";
import { count } from "./format.mjs";

/** Targets one page listens for, and names without a listener it remembers. */
const maxTargets = 32;

export class Targets {
  #session;
  #messages;
  /** Received, by target. @type {Map<string, {count: number, figure: HTMLElement}>} */ #targets = new Map();
  /** @type {Set<string>} */ #unheard = new Set();

  /**
   * @param {import("./session.mjs").Session} session
   * @param {import("./messages.mjs").Messages} messages
   * @param {string[]} targets listened for from the start
   * @param {string[]} counted those of them that are only counted until the user wants to see them
   */
  constructor(session, messages, targets, counted) {
    this.#session = session;
    this.#messages = messages;
    byId("listen").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add(byId("listen-target").value);
      byId("listen-target").value = "";
    });
    for (const target of targets) this.#add(target, !counted.includes(target));
  }

  /** @param {string} target */
  arrived(target) {
    const entry = this.#targets.get(target);
    if (entry) entry.count++;
  }

  /** A message came for which nobody listens: offer it. @param {string} target */
  unheard(target) {
    if (this.#unheard.has(target) || this.#unheard.size >= maxTargets) return;
    this.#unheard.add(target);
    this.#drawUnheard();
  }

  /** Redraws the counts; call it once a second. */
  tick() {
    for (const entry of this.#targets.values()) entry.figure.textContent = count(entry.count);
  }

  /** @param {string} target @param {boolean} [shown] */
  #add(target, shown = true) {
    const known = [...this.#targets.keys()].some((other) => other.toLowerCase() === target.toLowerCase());
    if (target === "" || known || this.#targets.size >= maxTargets) return;
    this.#session.listen(target);
    this.#unheard.delete(target.toLowerCase());
    this.#drawUnheard();

    const figure = make("small", {}, "0");
    const box = make("input", { type: "checkbox", checked: shown, ariaLabel: `Show ${target}` });
    if (!shown) this.#messages.show(target, false);
    box.addEventListener("change", () => this.#messages.show(target, box.checked));
    const stop = make("button", { type: "button", textContent: "✕", ariaLabel: `Stop listening for ${target}`, title: `Stop listening for ${target}` });
    const chip = make("li", { className: "chip" }, make("label", { title: target }, box, make("span", {}, target), figure), stop);
    stop.addEventListener("click", () => {
      this.#session.unlisten(target);
      this.#targets.delete(target);
      this.#messages.forget(target);
      chip.remove();
      byId("listen-target").focus();
    });
    this.#targets.set(target, { count: 0, figure });
    byId("targets").append(chip);
  }

  #drawUnheard() {
    const note = byId("unheard");
    note.hidden = this.#unheard.size === 0;
    const buttons = [...this.#unheard].map((target) => {
      const button = make("button", { type: "button", className: "mini", textContent: target });
      button.addEventListener("click", () => this.#add(target));
      return button;
    });
    note.replaceChildren("Arrived, but nobody listens; listen for ", ...buttons);
  }
}
