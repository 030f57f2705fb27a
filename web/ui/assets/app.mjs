// The page: reads the configuration and the address, and ties the parts together.

import { byId, check, checked, make } from "./dom.mjs";
import { errorText } from "./format.mjs";
import { Groups } from "./groups.mjs";
import { Messages, maxRows } from "./messages.mjs";
import { startSend } from "./send.mjs";
import { Session } from "./session.mjs";
import { Targets } from "./targets.mjs";
import { Ticks } from "./ticks.mjs";
import { Tiles } from "./tiles.mjs";

/** The target that carries the demo's ticks. */
const tickTarget = "Tick";
const tripInterval = 2000;

/**
 * @typedef {object} Config
 * @property {string[]} hubs
 * @property {string} version
 * @property {string[]} demoGroups
 * @property {string[]} targets
 */

/** @returns {Promise<Config>} */
async function loadConfig() {
  const response = await fetch("/assets/config.json");
  if (!response.ok) throw new Error(`config.json: status ${response.status}`);
  return response.json();
}

/** @param {Config} config */
function fillSettings(config) {
  byId("version").textContent = config.version;
  byId("hub").replaceChildren(...config.hubs.map((path) => make("option", { value: path }, path)));
  byId("hub-field").hidden = config.hubs.length < 2;

  const address = new URLSearchParams(location.search);
  const hub = address.get("hub") ?? "";
  if (config.hubs.includes(hub)) byId("hub").value = hub;
  check("protocol", address.get("protocol") === "messagepack" ? "messagepack" : "json");
  const transport = address.get("transport") ?? "";
  if ([...byId("transport").options].some((option) => option.value === transport)) byId("transport").value = transport;
  byId("user").value = address.get("user") ?? "";
  return address.getAll("group");
}

/** @returns {import("./session.mjs").Settings} */
function settings() {
  return {
    hub: byId("hub").value,
    protocol: checked("protocol"),
    transport: byId("transport").value,
    user: byId("user").value,
    token: byId("token").value,
  };
}

/** Keeps the address in step, so that it can be copied; the token stays out. */
function showAddress(config, groups) {
  const { hub, protocol, transport, user } = settings();
  const address = new URLSearchParams();
  if (hub !== config.hubs[0]) address.set("hub", hub);
  if (protocol !== "json") address.set("protocol", protocol);
  if (transport !== "auto") address.set("transport", transport);
  if (user !== "") address.set("user", user);
  for (const group of groups) address.append("group", group);
  const text = address.toString();
  history.replaceState(null, "", text === "" ? location.pathname : `?${text}`);
}

/** Event streams are text: there is no MessagePack over them. */
function limitTransports() {
  const binary = checked("protocol") === "messagepack";
  const option = [...byId("transport").options].find(({ value }) => value === "sse");
  option.disabled = binary;
  if (binary && byId("transport").value === "sse") byId("transport").value = "auto";
}

/** @param {Config} config */
function start(config) {
  const wanted = fillSettings(config);
  limitTransports();
  const demo = config.demoGroups.length > 0; // then ticks have a table of their own

  const tiles = new Tiles();
  const ticks = new Ticks(byId("ticks"));
  const messages = new Messages(byId("messages"), (rows) => {
    byId("no-messages").hidden = rows > 0;
    byId("shown").textContent = rows === 0 ? "" : rows < maxRows ? `${rows} shown` : `newest ${rows} shown`;
  });
  const session = new Session({ state, connected, message, unheard: (target) => targets.unheard(target) });
  const targets = new Targets(session, messages, config.targets, demo ? [tickTarget] : []);
  const groups = new Groups(session, config.demoGroups, wanted);
  groups.changed = () => showAddress(config, groups.chosen);
  startSend(session);

  /** @param {import("./session.mjs").State} now */
  function state(now) {
    tiles.showState(now);
    const trouble = now.error ? errorText(now.error) : "";
    // Written only when it differs: a screen reader says it each time.
    if (byId("settings-error").textContent !== trouble) byId("settings-error").textContent = trouble;
  }

  async function connected() {
    ticks.restart();
    const [who] = await Promise.all([session.invoke("WhoAmI").catch(() => undefined), groups.rejoin()]);
    tiles.showIdentity(who, session.connectionId);
  }

  /** @param {string} target @param {unknown[]} args */
  function message(target, args) {
    tiles.arrived();
    targets.arrived(target);
    if (target === tickTarget) ticks.add(args[0]);
    messages.add(target, args);
  }

  async function measure() {
    if (!session.live || document.hidden) return;
    const started = performance.now();
    const answered = await session.invoke("Echo", 1).then(() => true, () => false);
    if (session.live) tiles.trip(answered ? performance.now() - started : NaN);
  }

  function everySecond() {
    tiles.tick();
    targets.tick();
    ticks.render(session.live);
    byId("no-ticks").hidden = ticks.size > 0;
  }

  function connect() {
    limitTransports();
    showAddress(config, groups.chosen);
    session.connect(settings()).then(measure);
  }

  byId("ticks-panel").hidden = !demo;
  byId("ticks-hint").hidden = !demo;
  byId("ticks-groups").textContent = config.demoGroups.join(", ");
  byId("reconnect").addEventListener("click", connect);
  byId("disconnect").addEventListener("click", () => session.disconnect());
  byId("settings").addEventListener("submit", (event) => {
    event.preventDefault();
    connect();
  });
  byId("settings").addEventListener("change", (event) => {
    if (event.target.name === "protocol") connect();
  });
  byId("pause").addEventListener("click", () => {
    messages.pause(!messages.paused);
    byId("pause").setAttribute("aria-pressed", String(messages.paused));
    byId("pause").textContent = messages.paused ? "Paused" : "Pause";
  });
  byId("clear").addEventListener("click", () => messages.clear());
  setInterval(everySecond, 1000);
  setInterval(measure, tripInterval);
  connect();
}

try {
  start(await loadConfig());
} catch (err) {
  byId("state").textContent = "Offline";
  byId("state").className = "pill err";
  byId("state-detail").textContent = errorText(err);
}
