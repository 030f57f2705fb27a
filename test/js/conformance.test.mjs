// The conformance host, seen by the official client in Node over every pair of
// transport and protocol, and below it; over http and https.

import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, test } from "node:test";

import { applies, attempt, cases, Client, nameOf, pairs } from "./lib/conformance-cases.mjs";
import { startConformanceHost, Table } from "./lib/conformance-host.mjs";
import { resumes, resumesBelow, resumesSlow } from "./lib/conformance-resume.mjs";
import { slow, wire } from "./lib/conformance-wire.mjs";

process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; // the host's certificate is made at its start

const require = createRequire(import.meta.url);
const libraries = { signalR: require("@microsoft/signalr"), MessagePackHubProtocol: require("@microsoft/signalr-protocol-msgpack").MessagePackHubProtocol, browser: false };
const table = new Table();
const below = "wire";

let host;
let files;

before(async () => {
  files = await mkdtemp(join(tmpdir(), "switchboard-static-"));
  await mkdir(join(files, "lib", "signalr-webworker"), { recursive: true });
  await cp(require.resolve("@microsoft/signalr/dist/browser/signalr.js"), join(files, "lib", "signalr-webworker", "signalr.js"));
  await writeFile(join(files, "file.txt"), "a file");
  host = await startConformanceHost(["-static", files]);
});

after(async () => {
  const end = await host?.stop();
  await rm(files, { recursive: true, force: true });
  console.log(`\n${table}\n`);
  if (end) assert.equal(end.code, 0, `the host's exit code; it printed:\n${host.program.output}`);
});

/** Every way to see a case: pairs, addresses, and with and without negotiation. */
function* views(c) {
  for (const pair of pairs) {
    for (const base of [host.http, host.https]) {
      for (const skip of pair.transport === "WebSockets" ? [false, true] : [false]) {
        const x = new Client(libraries, base, pair, skip);
        if (applies(c, x)) yield { x, column: nameOf(pair), name: `${nameOf(pair)} ${new URL(base).protocol}${skip ? " without negotiation" : ""}` };
      }
    }
  }
}

/** A test for each row, all of whose cells must be ok. */
function rows(list, cells) {
  for (const c of list) {
    test(c.row, async () => {
      const failures = [];
      await Promise.all([...cells(c)].map(async ({ column, name, run }) => {
        const failure = await run();
        table.note(c.row, column, failure);
        if (failure) failures.push(`${name}: ${failure}`);
      }));
      assert.deepEqual(failures, []);
    });
  }
}

const byClient = (c) => [...views(c)].map(({ x, column, name }) => ({ column, name, run: () => attempt(c, x) }));

const byWire = (c) => [host.http, host.https].map((base) => ({
  column: below, name: new URL(base).protocol, run: () => c.run(base).then(() => undefined, (err) => String(err?.stack ?? err)),
}));

describe("conformance", { concurrency: 4 }, () => {
  describe("what takes its time", { concurrency: true }, () => rows([...slow, ...resumesSlow], byWire));
  describe("below the client", { concurrency: 2 }, () => rows([...wire, ...resumesBelow], byWire));
  describe("by the client", { concurrency: 2 }, () => rows(cases, byClient));
  describe("by the client, behind a proxy", { concurrency: 2 }, () => rows(resumes.map((c) => ({ ...c, transports: ["WebSockets"], negotiated: true })), byClient));
});
