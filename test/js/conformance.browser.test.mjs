// The conformance host, seen by the official client in Chromium over every pair
// of transport and protocol: from a page of the host itself, over http and
// https, and from a page of another origin.

import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { openPage, startBrowser } from "./lib/browser.mjs";
import { nameOf, pairs } from "./lib/conformance-cases.mjs";
import { startConformanceHost, Table } from "./lib/conformance-host.mjs";

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));
const table = new Table();

/** The page: libraries, and a function that runs all cases for one pair. */
const page = `<!doctype html>
<title>conformance</title>
<script src="signalr.min.js"></script>
<script src="signalr-protocol-msgpack.min.js"></script>
<script type="module">
import { applies, attempt, cases, Client } from "./conformance-cases.mjs";

const libraries = { signalR, MessagePackHubProtocol: signalR.protocols.msgpack.MessagePackHubProtocol, browser: true };

// Few at a time over HTTP/1.1: browsers keep six connections to a host.
globalThis.conformance = async (base, pair, skipNegotiation, sets) => {
  const outcomes = [];
  const client = () => new Client(libraries, base, pair, skipNegotiation);
  const due = cases.filter((c) => sets.includes(c.row[0]) && applies(c, client()));
  const work = async (waiting) => {
    for (let c; (c = waiting.shift()); ) outcomes.push({ row: c.row, failure: await attempt(c, client()) });
  };
  const waiting = due.filter((c) => !c.slow);
  const many = base.startsWith("https:") || pair.transport === "WebSockets" ? 6 : 2;
  await Promise.all([...due.filter((c) => c.slow).map((c) => work([c])), ...Array.from({ length: many }, () => work(waiting))]);
  return outcomes;
};
</script>`;

let host;
let files;
let browser;

before(async () => {
  files = await mkdtemp(join(tmpdir(), "switchboard-static-"));
  for (const [name, from] of Object.entries({
    "signalr.min.js": require.resolve("@microsoft/signalr/dist/browser/signalr.min.js"),
    "signalr-protocol-msgpack.min.js": require.resolve("@microsoft/signalr-protocol-msgpack/dist/browser/signalr-protocol-msgpack.min.js"),
    "conformance-cases.mjs": join(here, "lib", "conformance-cases.mjs"),
  })) await cp(from, join(files, name));
  await writeFile(join(files, "index.html"), page);
  host = await startConformanceHost(["-static", files]);
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  const end = await host?.stop();
  await rm(files, { recursive: true, force: true });
  console.log(`\n${table}\n`);
  if (end) assert.equal(end.code, 0, `the host's exit code; it printed:\n${host.program.output}`);
});

/** Scheme of the page and of the hubs, and which sets of requirements are looked at. */
const views = [["http", "http", "AB"], ["https", "https", "AB"], ["http", "https", "A"]];

describe("conformance in Chromium", { concurrency: 4 }, () => {
  for (const [from, to, sets] of views) {
    for (const pair of pairs) {
      for (const skip of pair.transport === "WebSockets" && from === to && from === "http" ? [false, true] : [false]) {
        test(`${nameOf(pair)}, ${from === to ? `${from}` : `another origin, ${from} to ${to}`}${skip ? ", without negotiation" : ""}`, async (t) => {
          // A context of its own has connections of its own.
          const { page } = await openPage(t, browser, `${host[from]}/`, { ignoreHTTPSErrors: true });
          await page.waitForFunction(() => globalThis.conformance);
          const outcomes = await page.evaluate((asked) => globalThis.conformance(...asked), [host[to], pair, skip, sets]);
          assert.ok(outcomes.length > 20, `${outcomes.length} cases`);
          for (const { row, failure } of outcomes) table.note(row, nameOf(pair), failure);
          assert.deepEqual(outcomes.filter(({ failure }) => failure).map(({ row, failure }) => `${row}: ${failure}`), []);
        });
      }
    }
  }
});
