// Official SignalR clients, and a mailbox for what they receive.

import { createRequire } from "node:module";
import { setTimeout as delay } from "node:timers/promises";

const require = createRequire(import.meta.url);
const signalR = require("@microsoft/signalr");
const { MessagePackHubProtocol } = require("@microsoft/signalr-protocol-msgpack");

/** Milliseconds a test waits for one message or one change of state. */
export const patience = 10_000;

export const protocols = ["json", "messagepack"];

/**
 * @typedef {object} ClientOptions
 * @property {"json" | "messagepack"} [protocol] "json" when missing
 * @property {boolean} [skipNegotiation] straight to the WebSocket
 * @property {string} [userId]
 * @property {number[]} [reconnect] delays of withAutomaticReconnect; none when missing
 * @property {string} [hub] path, "/hub" when missing
 * @property {(received: string | Uint8Array) => void} [tap] sees what arrives before it is parsed
 */

/**
 * Builds a client that is not started.
 * @param {string} base
 * @param {ClientOptions} [options]
 */
export function buildClient(base, options = {}) {
  const { protocol = "json", skipNegotiation = false, userId, reconnect, hub = "/hub", tap } = options;
  const url = new URL(hub, base);
  if (userId !== undefined) url.searchParams.set("user_id", userId);
  const builder = new signalR.HubConnectionBuilder()
    .withUrl(url.href, skipNegotiation ? { skipNegotiation, transport: signalR.HttpTransportType.WebSockets } : {})
    .withHubProtocol(tapped(protocol === "messagepack" ? new MessagePackHubProtocol() : new signalR.JsonHubProtocol(), tap))
    .configureLogging(signalR.LogLevel.None);
  if (reconnect) builder.withAutomaticReconnect(reconnect);
  return builder.build();
}

/** Lets `tap` see the bytes or text that the protocol is given. */
function tapped(protocol, tap) {
  if (tap) {
    const parse = protocol.parseMessages.bind(protocol);
    protocol.parseMessages = (input, logger) => {
      tap(typeof input === "string" ? input : new Uint8Array(input).slice());
      return parse(input, logger);
    };
  }
  return protocol;
}

/**
 * Builds and starts a client, which is stopped when the test is done.
 * @param {import("node:test").TestContext} t
 * @param {string} base
 * @param {ClientOptions} [options]
 */
export async function connect(t, base, options) {
  const client = buildClient(base, options);
  t.after(() => client.stop());
  await client.start();
  return client;
}

/**
 * Waits for a promise, but not for ever.
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what for the error
 * @param {number} [limit] milliseconds
 * @returns {Promise<T>}
 */
export async function within(promise, what, limit = patience) {
  const late = new AbortController();
  const timeout = delay(limit, undefined, { signal: late.signal }).then(() => {
    throw new Error(`${what}: nothing within ${limit} ms`);
  });
  timeout.catch(() => undefined);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    late.abort();
  }
}

/** Collects the messages of one target in the order of their arrival. */
export class Inbox {
  /** Arguments of each message, not yet taken. @type {unknown[][]} */
  waiting = [];
  /** @type {(() => void) | undefined} */ #arrived;
  #target;

  constructor(client, target) {
    this.#target = target;
    client.on(target, (...args) => {
      this.waiting.push(args);
      this.#arrived?.();
    });
  }

  /** The arguments of the next message. @returns {Promise<unknown[]>} */
  async next() {
    return (await this.take(1))[0];
  }

  /** The arguments of the next n messages. @param {number} n @returns {Promise<unknown[][]>} */
  async take(n) {
    const enough = new Promise((resolve) => {
      this.#arrived = () => this.waiting.length >= n && resolve(undefined);
      this.#arrived();
    });
    try {
      await within(enough, `${n} messages for ${this.#target}, ${this.waiting.length} were there`);
    } catch (err) {
      throw new Error(`${err.message}; now there are ${this.waiting.length}`);
    } finally {
      this.#arrived = undefined;
    }
    return this.waiting.splice(0, n);
  }
}
