// The header and the four figures: state, instance, connection, rate, round trip.

import { Line } from "./chart.mjs";
import { byId } from "./dom.mjs";
import { clock, count, instanceName, milliseconds } from "./format.mjs";

const words = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", offline: "Offline" };
const looks = { connecting: "wait", live: "ok", reconnecting: "wait", offline: "err" };
/** Instances named in the first tile; the page keeps no more than that. */
const maxSeen = 12;

export class Tiles {
  #state = "";
  /** Connections by instance name, in the order of their first. @type {Map<string, number>} */ #seen = new Map();
  #total = 0;
  #second = 0;
  #rates = new Line(byId("rate-line"));
  #trips = new Line(byId("rtt-line"), 30);

  /** @param {import("./session.mjs").State} state */
  showState(state) {
    const pill = byId("state");
    pill.textContent = words[state.name];
    pill.className = `pill ${looks[state.name]}`;
    pill.dataset.state = state.name;
    byId("state-detail").textContent = detail(state);
    byId("disconnect").disabled = state.name === "offline";
    byId("reconnect").textContent = state.name === "offline" ? "Connect" : "Reconnect";
    if (state.name !== "live") this.#unknown();
    document.title = `${{ live: "●", offline: "✕" }[state.name] ?? "↻"} ${words[state.name]} · Switchboard`;
    if (state.name !== this.#state) byId("announce").textContent = `Connection: ${words[state.name]}`;
    this.#state = state.name;
  }

  /**
   * Shows the answer of WhoAmI; members that are missing are shown as unknown.
   * @param {unknown} answer
   * @param {string | null} connectionId what the client library knows
   */
  showIdentity(answer, connectionId) {
    const who = typeof answer === "object" && answer !== null ? /** @type {Record<string, unknown>} */ (answer) : {};
    const { name, tail } = instanceName(who.instance);
    byId("instance").textContent = name;
    byId("instance").title = typeof who.instance === "string" ? who.instance : "";
    const seen = tail === "" ? name : `${name} ${tail}`;
    if (name !== "—" && (this.#seen.has(seen) || this.#seen.size < maxSeen)) this.#seen.set(seen, (this.#seen.get(seen) ?? 0) + 1);
    const visits = [...this.#seen].map(([instance, times]) => (times === 1 ? instance : `${instance} ×${times}`));
    byId("instances-seen").textContent = visits.length === 0 ? "the server does not say" : `seen: ${visits.join(", ")}`;
    byId("instances-seen").title = visits.join("\n");

    const id = String(who.connectionId ?? connectionId ?? "—");
    byId("connection-id").textContent = id;
    byId("connection-id").title = id;
    const facts = [who.transport, who.protocol, who.userId ? `user ${who.userId}` : "no user"];
    byId("connection-facts").textContent = facts.filter((fact) => typeof fact === "string" && fact !== "").join(" · ");
  }

  arrived() {
    this.#total++;
    this.#second++;
  }

  /** Call it once a second. */
  tick() {
    byId("rate").textContent = count(this.#second);
    byId("total").textContent = `${count(this.#total)} received`;
    this.#rates.push(this.#second);
    this.#second = 0;
  }

  /** @param {number} ms NaN when there was no answer */
  trip(ms) {
    byId("rtt").textContent = milliseconds(ms);
    this.#trips.push(ms);
  }

  #unknown() {
    byId("instance").textContent = "—";
    byId("instance").title = "";
    byId("connection-id").textContent = "—";
    byId("connection-id").title = "";
    byId("connection-facts").textContent = "not connected";
    byId("rtt").textContent = "—";
  }
}

/** What stands beside the word; why it is so stands below the settings. @param {import("./session.mjs").State} state */
function detail(state) {
  if (state.name === "reconnecting") return `attempt ${state.attempt ?? 1}`;
  return state.name === "offline" ? `since ${clock(new Date()).slice(0, 8)}` : "";
}
