// Starting and ending the processes a test needs: each on a free loopback port,
// each ended by its own process id.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

/** Output kept of one process, in characters: the last of it. */
const maxOutput = 64 * 1024;
/** Milliseconds between two looks at something that has no event of its own. */
const pollInterval = 20;

/** @returns {Promise<number>} a loopback port that was free a moment ago */
export async function freePort() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/** One process and what it printed. It does not outlive this one. */
export class Program {
  /** Everything it printed to both streams, the last maxOutput characters. */
  output = "";
  #child;
  #name;
  #exited;

  /** @param {string} file @param {string[]} args @param {import("node:child_process").SpawnOptions} [options] */
  constructor(file, args, options = {}) {
    this.#name = `${file} ${args.join(" ")}`;
    this.#child = spawn(file, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => (this.output = (this.output + text).slice(-maxOutput)));
    }
    const kill = () => this.#child.kill("SIGKILL");
    process.once("exit", kill);
    this.#exited = new Promise((resolve) => {
      this.#child.once("error", (err) => resolve({ code: null, signal: null, err }));
      this.#child.once("exit", (code, signal) => resolve({ code, signal }));
    });
    this.#exited.then(() => process.off("exit", kill));
  }

  /** Its process id. */
  get pid() {
    return this.#child.pid;
  }

  /**
   * Waits until `ready` answers true; fails, with the output, when the process
   * ends before or the time is up.
   * @param {() => Promise<boolean> | boolean} ready
   * @param {number} [limit] milliseconds
   */
  async until(ready, limit = 20_000) {
    const deadline = Date.now() + limit;
    let ended;
    this.#exited.then((how) => (ended = how));
    while (!(await ready())) {
      if (ended) throw new Error(`${this.#name} ended (${JSON.stringify(ended)}) before it was ready:\n${this.output}`);
      if (Date.now() > deadline) throw new Error(`${this.#name} is not ready after ${limit} ms:\n${this.output}`);
      await delay(pollInterval);
    }
  }

  /**
   * Sends a signal to this process and waits for its end; a process that does
   * not end in time is killed, and that is an error.
   * @param {NodeJS.Signals} [signal]
   * @param {number} [limit] milliseconds
   * @returns {Promise<{code: number | null, signal: NodeJS.Signals | null}>}
   */
  async stop(signal = "SIGTERM", limit = 15_000) {
    this.#child.kill(signal);
    const late = new AbortController();
    const ended = await Promise.race([this.#exited, delay(limit, undefined, { signal: late.signal }).catch(() => undefined)]);
    late.abort();
    if (ended) return ended;
    this.#child.kill("SIGKILL");
    await this.#exited;
    throw new Error(`${this.#name} did not end within ${limit} ms of ${signal}:\n${this.output}`);
  }
}
