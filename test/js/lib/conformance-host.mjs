// The conformance host, and the table of what it was seen to do.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { env } from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { uncreatableMessage } from "./conformance-cases.mjs";
import { Program } from "./program.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");

/**
 * Starts SWITCHBOARD_CONFORMANCE_BIN, or else a host built for the purpose, on
 * free ports. The caller stops it.
 * @param {string[]} [args] more flags
 * @returns {Promise<{http: string, https: string, program: Program, stop: () => Promise<{code: number | null}>}>}
 */
export async function startConformanceHost(args = []) {
  let file = env.SWITCHBOARD_CONFORMANCE_BIN;
  let directory;
  if (!file) {
    directory = await mkdtemp(join(tmpdir(), "switchboard-conformance-"));
    file = join(directory, "conformance");
  }
  const remove = () => directory && rm(directory, { recursive: true, force: true });
  let program;
  try {
    if (directory) await promisify(execFile)("go", ["build", "-o", file, "./cmd/conformance"], { cwd: root });
    program = new Program(file, ["-http", "127.0.0.1:0", "-https", "127.0.0.1:0", "-uncreatable-message", uncreatableMessage, ...args]);
    const address = (scheme) => program.output.match(new RegExp(`^Now listening on: (${scheme}://127\\.0\\.0\\.1:\\d+)$`, "m"))?.[1];
    await program.until(() => Boolean(address("http") && address("https")));
    const stop = async () => {
      try {
        return await program.stop();
      } finally {
        await remove();
      }
    };
    return { http: address("http"), https: address("https"), program, stop };
  } catch (err) {
    await program?.stop("SIGKILL");
    await remove();
    throw err;
  }
}

/** Rows are requirements, columns the ways to see them; a cell is ok or failed. */
export class Table {
  /** @type {Map<string, Map<string, string[]>>} failures by row and column */
  #rows = new Map();
  #columns = new Set();

  /** Notes an outcome; a cell that has several is ok if all are. @param {string | undefined} failure */
  note(row, column, failure) {
    this.#columns.add(column);
    if (!this.#rows.has(row)) this.#rows.set(row, new Map());
    const cells = this.#rows.get(row);
    cells.set(column, [...(cells.get(column) ?? []), ...(failure ? [failure] : [])]);
  }

  toString() {
    const columns = [...this.#columns].sort();
    const wide = Math.max(...[...this.#rows.keys()].map((row) => row.length));
    const line = (row, cells) => `${row.padEnd(wide)}  ${cells.map((cell, i) => cell.padEnd(Math.max(6, columns[i].length))).join("  ")}`.trimEnd();
    const lines = [...this.#rows.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).map((row) =>
      line(row, columns.map((column) => {
        const failures = this.#rows.get(row).get(column);
        return failures === undefined ? "-" : failures.length > 0 ? "failed" : "ok";
      })));
    return [line("", columns), ...lines].join("\n");
  }
}
