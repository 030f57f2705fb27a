// The groups panel: what this page has joined, and wants again after a reconnect.

import { byId, make } from "./dom.mjs";
import { errorText } from "./format.mjs";

/** Groups one page joins; the server has its own limit. */
const maxGroups = 64;

export class Groups {
  #session;
  #demo;
  /** @type {Set<string>} */ #wanted;

  /**
   * @param {import("./session.mjs").Session} session
   * @param {string[]} demo groups joined from the start
   * @param {string[]} others groups of the page's address
   */
  constructor(session, demo, others) {
    this.#session = session;
    this.#demo = new Set(demo);
    this.#wanted = new Set([...demo, ...others].slice(0, maxGroups));
    byId("join").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#join(byId("group").value);
    });
    this.#draw();
  }

  /** Groups other than those of the demo. */
  get chosen() {
    return [...this.#wanted].filter((group) => !this.#demo.has(group));
  }

  /** Called when `chosen` has changed. */
  changed = () => {};

  /** Joins all wanted groups on a new connection; those the server refuses are dropped. */
  async rejoin() {
    this.#fail("");
    await Promise.all([...this.#wanted].map((group) => this.#enter(group)));
    this.#draw();
  }

  /** @param {string} group */
  async #join(group) {
    this.#fail("");
    if (this.#wanted.size >= maxGroups && !this.#wanted.has(group)) {
      this.#fail(`This page joins at most ${maxGroups} groups.`);
      return;
    }
    if (await this.#enter(group)) {
      byId("group").value = "";
      if (byId("recipient").value === "") byId("recipient").value = group;
    }
    this.#draw();
  }

  /** @param {string} group @returns {Promise<boolean>} whether the page is in the group now */
  async #enter(group) {
    try {
      await this.#session.invoke("JoinGroup", group);
      this.#wanted.add(group);
      return true;
    } catch (err) {
      if (this.#session.live) this.#wanted.delete(group);
      this.#fail(`${group}: ${errorText(err)}`);
      return false;
    }
  }

  /** @param {string} group */
  async #leave(group) {
    this.#fail("");
    try {
      await this.#session.invoke("LeaveGroup", group);
    } catch (err) {
      // Offline nothing has to be left: the next connection just does not join.
      if (this.#session.live) {
        this.#fail(`${group}: ${errorText(err)}`);
        return;
      }
    }
    this.#wanted.delete(group);
    this.#draw();
    byId("group").focus();
  }

  /** @param {string} text */
  #fail(text) {
    byId("join-error").textContent = text;
  }

  #draw() {
    const groups = [...this.#wanted];
    byId("no-groups").hidden = groups.length > 0;
    byId("groups").hidden = groups.length === 0;
    byId("groups").replaceChildren(
      ...groups.map((group) => {
        const leave = make("button", { type: "button", textContent: "✕", ariaLabel: `Leave ${group}`, title: `Leave ${group}` });
        leave.addEventListener("click", () => this.#leave(group));
        return make("li", { className: "chip", title: group }, make("span", {}, group), leave);
      }),
    );
    byId("joined").replaceChildren(...groups.map((value) => make("option", { value })));
    this.changed();
  }
}
