// One connection to a hub at a time, kept alive for as long as the page wants it.

import { notOffered } from "./format.mjs";

/* global signalR */

/**
 * @typedef {object} Settings
 * @property {string} hub path of the hub on this origin
 * @property {"json"|"messagepack"} protocol
 * @property {"auto"|"websockets"|"sse"|"longpolling"} transport
 * @property {string} user empty for nobody
 * @property {string} token empty for none
 *
 * @typedef {object} State
 * @property {"connecting"|"live"|"reconnecting"|"offline"} name
 * @property {number} [attempt] counted from 1, while reconnecting
 * @property {unknown} [error] why the connection is offline or was lost
 *
 * @typedef {object} Events
 * @property {(state: State) => void} state
 * @property {() => Promise<void>} connected after each start and restart, before state "live"; must not fail
 * @property {(target: string, args: unknown[]) => void} message
 * @property {(target: string) => void} unheard a message for which nobody listens
 */

const delays = [0, 500, 1000, 2000, 5000, 10000];

/**
 * Milliseconds before attempt n (counted from 0): growing, at most 10 s, with
 * half of it random, so that a fleet of pages does not return in one second.
 * @param {number} n
 */
export function retryDelay(n) {
  const most = delays[Math.min(n, delays.length - 1)];
  return most / 2 + (Math.random() * most) / 2;
}

/**
 * The address of a hub path with the user id. Only paths of this page's own
 * origin are accepted.
 * @param {Settings} settings
 */
export function hubURL(settings) {
  const url = new URL(settings.hub, location.origin);
  if (url.origin !== location.origin) throw new Error(`${settings.hub} is not a path of this server`);
  if (settings.user !== "") url.searchParams.set("user_id", settings.user);
  return url.href;
}

export class Session {
  /** @type {Events} */ #events;
  /** @type {any} */ #connection;
  /** Grows with each connect and disconnect: callbacks of older runs are ignored. */
  #run = 0;
  /** @type {(() => void) | undefined} */ #wake;
  /** Names as given, by lower case: the client library ignores case. @type {Map<string, string>} */
  #targets = new Map();

  /** @param {Events} events */
  constructor(events) {
    this.#events = events;
  }

  get live() {
    return this.#connection?.state === signalR.HubConnectionState.Connected;
  }

  /** @returns {string | null} as the client library knows it; null without negotiation */
  get connectionId() {
    return this.#connection?.connectionId ?? null;
  }

  /** Listens for one more target, now and after every reconnect. @param {string} target */
  listen(target) {
    const key = target.toLowerCase();
    if (this.#targets.has(key)) return;
    this.#targets.set(key, target);
    if (this.#connection) this.#on(this.#connection, target);
  }

  /** @param {string} target */
  unlisten(target) {
    if (this.#targets.delete(target.toLowerCase())) this.#connection?.off(target);
  }

  /**
   * Ends what is there and connects anew; tries again until it is live, refused
   * for good, or called off by another connect or disconnect.
   * @param {Settings} settings
   */
  async connect(settings) {
    const run = ++this.#run;
    this.#events.state({ name: "connecting" });
    await this.#stop();
    for (let attempt = 1; run === this.#run; attempt++) {
      const connection = this.#build(settings, run);
      this.#connection = connection;
      try {
        await connection.start();
        if (run !== this.#run) return;
        await this.#ready(run);
        return;
      } catch (err) {
        if (run !== this.#run) return;
        if (isFinal(err)) {
          this.#events.state({ name: "offline", error: err });
          return;
        }
        this.#events.state({ name: "reconnecting", attempt, error: err });
        await this.#pause(retryDelay(attempt));
      }
    }
  }

  async disconnect() {
    const run = ++this.#run;
    await this.#stop();
    if (run === this.#run) this.#events.state({ name: "offline" });
  }

  /**
   * Calls a hub method and returns its result.
   * @param {string} method
   * @param {...unknown} args
   * @returns {Promise<unknown>}
   */
  async invoke(method, ...args) {
    if (!this.live) throw new Error("Not connected.");
    return this.#connection.invoke(method, ...args);
  }

  /** @param {Settings} settings @param {number} run */
  #build(settings, run) {
    const types = signalR.HttpTransportType;
    const transport = { websockets: types.WebSockets, sse: types.ServerSentEvents, longpolling: types.LongPolling }[settings.transport];
    const builder = new signalR.HubConnectionBuilder()
      .withUrl(hubURL(settings), { transport, accessTokenFactory: settings.token === "" ? undefined : () => settings.token })
      .withAutomaticReconnect({ nextRetryDelayInMilliseconds: (context) => this.#nextRetry(run, context) })
      .configureLogging(new Listener((target) => run === this.#run && this.#events.unheard(target)));
    if (settings.protocol === "messagepack") builder.withHubProtocol(new signalR.protocols.msgpack.MessagePackHubProtocol());

    const connection = builder.build();
    connection.onreconnected(() => run === this.#run && this.#ready(run));
    connection.onclose((err) => this.#closed(run, err));
    for (const target of this.#targets.values()) this.#on(connection, target);
    return connection;
  }

  /** @param {number} run @param {any} context @returns {number | null} never gives up by itself */
  #nextRetry(run, context) {
    if (run !== this.#run || isFinal(context.retryReason)) return null;
    this.#events.state({ name: "reconnecting", attempt: context.previousRetryCount + 1, error: context.retryReason });
    return retryDelay(context.previousRetryCount);
  }

  /** @param {number} run */
  async #ready(run) {
    await this.#events.connected();
    if (run === this.#run && this.live) this.#events.state({ name: "live" });
  }

  /** The server ended the connection and does not want it back, or refused it. */
  #closed(run, err) {
    if (run === this.#run) this.#events.state({ name: "offline", error: err });
  }

  #on(connection, target) {
    connection.on(target, (...args) => {
      if (connection === this.#connection) this.#events.message(target, args);
    });
  }

  async #stop() {
    this.#wake?.();
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.stop().catch(() => undefined);
  }

  /** @param {number} ms */
  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}

/** Whether trying again cannot help: refused for who we are, or nothing both sides speak. */
function isFinal(err) {
  const text = String(err?.message ?? err ?? "");
  return /status code '?(401|403)/i.test(text) || /handshake error|None of the transports supported/.test(text) || notOffered(text);
}

/** Takes the client library's log and picks out the messages nobody listens for. */
class Listener {
  #unheard;

  /** @param {(target: string) => void} unheard */
  constructor(unheard) {
    this.#unheard = unheard;
  }

  /** @param {number} level @param {string} message */
  log(level, message) {
    const target = /^No client method with the name '(.*)' found\.$/s.exec(message);
    if (target) this.#unheard(target[1]);
    else if (level >= signalR.LogLevel.Critical) console.error(message);
  }
}
