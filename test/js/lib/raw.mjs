// Requests, WebSockets, event streams and polls without a SignalR client, to see
// what clients do not show.

import { once } from "node:events";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";

import { within } from "./conformance-cases.mjs";

const require = createRequire(import.meta.url);
const fromSignalR = createRequire(require.resolve("@microsoft/signalr"));
const WebSocket = fromSignalR("ws");

export const separator = "\u001e";
export const handshake = (protocol = "json", version = 1) => `${JSON.stringify({ protocol, version })}${separator}`;

/** The records of a text. @param {string} text */
export const records = (text) => text.split(separator).slice(0, -1).map((record) => JSON.parse(record));

export const record = (message) => `${JSON.stringify(message)}${separator}`;

/**
 * One request, its redirects not followed.
 * @param {string} url
 * @param {RequestInit} [options]
 * @param {number} [limit] milliseconds for the headers of the answer
 */
export async function ask(url, options = {}, limit = 20_000) {
  const response = await within(fetch(url, { redirect: "manual", ...options }), `${options.method ?? "GET"} ${url}`, limit);
  return { status: response.status, reason: response.statusText, headers: response.headers, text: await within(response.text(), "body") };
}

/** Negotiates and returns the answer. */
export async function negotiate(base, hub, query = "negotiateVersion=1", headers = {}) {
  return JSON.parse((await ask(`${base}${hub}/negotiate?${query}`, { method: "POST", headers })).text);
}

/** The address of a connection that was negotiated for the purpose. */
export const negotiated = async (base, hub) => `${base}${hub}?id=${(await negotiate(base, hub)).connectionToken}`;

/** A queue whose reader waits. */
class Queue {
  #items = [];
  #arrived;

  push(item) {
    this.#items.push(item);
    this.#arrived?.();
  }

  async next(what, limit) {
    if (this.#items.length === 0) await within(new Promise((resolve) => (this.#arrived = resolve)), what, limit);
    return this.#items.shift();
  }
}

/** One WebSocket. */
export class Socket {
  #messages = new Queue();

  /** @param {string} url http or https */
  constructor(url, headers = {}) {
    this.ws = new WebSocket(url.replace(/^http/, "ws"), { headers, perMessageDeflate: false });
    this.ws.on("message", (data) => this.#messages.push({ binary: typeof data !== "string", data: Buffer.from(data), text: data.toString() }));
    this.ws.on("error", () => undefined); // told by closed or status
    /** 101, or the status of the refusal. */
    this.status = new Promise((resolve) => {
      this.ws.on("open", () => resolve(101));
      this.ws.on("unexpected-response", (_, response) => {
        resolve(response.statusCode);
        response.resume();
        response.on("end", () => this.ws.terminate());
      });
    });
    /** How it closed: {code}; 1006 without a close frame, 1005 with one that is empty. */
    this.closed = new Promise((resolve) => this.ws.on("close", (code) => resolve({ code })));
  }

  /** Opens a socket on a hub, with the handshake done. */
  static async open(url, protocol = "json", version = 1) {
    const socket = new Socket(url);
    await within(socket.status, "upgrade");
    socket.ws.send(handshake(protocol, version));
    await socket.next();
    return socket;
  }

  /** The next message. @returns {Promise<{binary: boolean, data: Buffer, text: string}>} */
  next(limit) {
    return this.#messages.next("WebSocket message", limit);
  }

  /** The next JSON record that is neither Ping nor Ack. */
  async record(limit) {
    for (;;) {
      const found = records((await this.next(limit)).text).find(({ type }) => type !== 6 && type !== 8);
      if (found) return found;
    }
  }

  send(data) {
    this.ws.send(data);
  }

  drop() {
    this.ws.terminate();
  }
}

/** One event stream. */
export class Events {
  #events = new Queue();

  /** Opens it; returns as soon as its headers are there. */
  static async open(url, headers = {}) {
    const events = new Events();
    events.abort = new AbortController();
    events.response = await within(fetch(url, { headers: { Accept: "text/event-stream", ...headers }, signal: events.abort.signal }), "headers of the event stream", 5000);
    events.ended = events.#read();
    return events;
  }

  async #read() {
    let text = "";
    const decoder = new TextDecoder();
    try {
      for await (const chunk of this.response.body) {
        text += decoder.decode(chunk, { stream: true });
        for (let end; (end = text.indexOf("\r\n\r\n")) >= 0; text = text.slice(end + 4)) {
          const lines = text.slice(0, end).split("\r\n").filter((line) => line.startsWith("data: "));
          if (lines.length > 0) this.#events.push(lines.map((line) => line.slice("data: ".length)).join("\n"));
        }
      }
      return "end";
    } catch {
      return "broken";
    }
  }

  /** The data of the next event. @returns {Promise<string>} */
  next(limit) {
    return this.#events.next("event", limit);
  }

  drop() {
    this.abort.abort();
  }
}

export const post = (url, body, headers = {}) => ask(url, { method: "POST", body, headers });

/** Polls until something other than an empty answer comes. */
export async function poll(url, limit = 20) {
  for (let i = 0; i < limit; i++) {
    const answer = await ask(url);
    if (answer.status !== 200 || answer.text !== "") return answer;
  }
  throw new Error("polls bring nothing");
}

/** A long-polling connection on a hub, with the handshake done. */
export async function openPolling(base, hub, protocol = "json") {
  const url = await negotiated(base, hub);
  await ask(url);
  await post(url, handshake(protocol));
  const { text } = await poll(url);
  return { url, text };
}

/** A TCP proxy whose links can be cut. */
export class Proxy {
  /** @type {Set<import("node:net").Socket>} */
  #sockets = new Set();
  /** Connections taken so far. */
  taken = 0;

  static async to(address) {
    const { hostname, port, protocol } = new URL(address);
    const proxy = new Proxy();
    proxy.server = createServer((near) => {
      proxy.taken++;
      const far = connect(Number(port), hostname);
      for (const [one, other] of [[near, far], [far, near]]) {
        proxy.#sockets.add(one);
        one.setNoDelay(true);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          proxy.#sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    proxy.base = `${protocol}//127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  /** Cuts every link without a goodbye. */
  cut() {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  close() {
    this.server.close();
    this.cut();
  }
}
