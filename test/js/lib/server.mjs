// A switchboard server and a Redis for a test.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { env } from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { freePort, Program } from "./program.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

/**
 * The program under test: SWITCHBOARD_BIN, or else built into a temporary
 * directory, which `remove` removes.
 * @returns {Promise<{file: string, remove: () => Promise<void>}>}
 */
export async function switchboard() {
  if (env.SWITCHBOARD_BIN) return { file: env.SWITCHBOARD_BIN, remove: async () => undefined };
  const directory = await mkdtemp(join(tmpdir(), "switchboard-js-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  const file = join(directory, "switchboard");
  try {
    await promisify(execFile)("go", ["build", "-o", file, "./cmd/switchboard"], { cwd: root });
  } catch (err) {
    await remove();
    throw err;
  }
  return { file, remove };
}

/**
 * @typedef {object} Server
 * @property {string} base "http://127.0.0.1:PORT", no slash at the end
 * @property {number} port
 * @property {Program} program
 * @property {(signal?: NodeJS.Signals) => Promise<{code: number | null, signal: NodeJS.Signals | null}>} stop
 *
 * @typedef {object} ServerOptions
 * @property {"serve" | "demo"} [command] "serve" when missing
 * @property {number} [port] a free one when missing
 * @property {string} [redis] URL; memory only when missing
 * @property {string} [instance] its name; the program's choice when missing
 * @property {string} [hub] "/hub=Switchboard.Hub" when missing
 * @property {string[]} [args] more flags
 */

/** Whether GET `url` is answered with 200. @param {string} url */
async function answers(url) {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

/**
 * Starts a server and returns when it is ready (200 on /readyz). The caller
 * stops it.
 * @param {string} file the program
 * @param {ServerOptions} [options]
 * @returns {Promise<Server>}
 */
export async function startServer(file, options = {}) {
  const { command = "serve", redis, instance, hub = "/hub=Switchboard.Hub", args = [] } = options;
  const port = options.port ?? (await freePort());
  const flags = ["--listen", `127.0.0.1:${port}`, ...args];
  if (command === "serve") flags.push("--hub", hub);
  if (redis) flags.push("--redis", redis);
  if (instance) flags.push("--instance", instance);

  const program = new Program(file, [command, ...flags]);
  const base = `http://127.0.0.1:${port}`;
  try {
    await program.until(() => answers(`${base}/readyz`));
  } catch (err) {
    await program.stop("SIGKILL");
    throw err;
  }
  return { base, port, program, stop: (signal) => program.stop(signal) };
}

/**
 * Starts a redis-server of its own without persistence. The caller stops it.
 * @returns {Promise<{url: string, port: number, program: Program, stop: () => Promise<void>}>}
 */
export async function startRedis() {
  const port = await freePort();
  const directory = await mkdtemp(join(tmpdir(), "switchboard-redis-"));
  const program = new Program("redis-server", ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory]);
  const stop = async () => {
    await program.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await program.until(() => pings(port));
  } catch (err) {
    await stop();
    throw new Error("redis-server does not start (Debian package redis-server)", { cause: err });
  }
  return { url: `redis://127.0.0.1:${port}`, port, program, stop };
}

/** Whether a Redis on this port answers PING. @param {number} port @returns {Promise<boolean>} */
function pings(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.setTimeout(1000, () => done(false));
    socket.once("data", (data) => done(data.toString() === "+PONG\r\n"));
    socket.once("error", () => done(false));
    function done(answer) {
      socket.destroy();
      resolve(answer);
    }
  });
}
