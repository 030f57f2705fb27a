// Copies the vendored browser libraries from test/js/node_modules into this
// directory and rewrites SHA256SUMS.
//
//	cd test/js && npm ci && node ../../web/vendor/update.mjs
//
// With --check nothing is written: the program exits with 1 and names what
// differs between node_modules, this directory and SHA256SUMS.

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, "..", "..", "test", "js", "node_modules");

/** What is copied: path below node_modules to file name here. */
export const copies = new Map([
  ["@microsoft/signalr/dist/browser/signalr.min.js", "signalr.min.js"],
  ["@microsoft/signalr-protocol-msgpack/dist/browser/signalr-protocol-msgpack.min.js", "signalr-protocol-msgpack.min.js"],
  ["@msgpack/msgpack/LICENSE", "LICENSE.msgpack.txt"],
]);

/** Files that no package brings and that are kept by hand. */
const kept = ["LICENSE.signalr.txt"];

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** The text SHA256SUMS must have, in the format of sha256sum(1). */
async function sums(contents) {
  const all = new Map(contents);
  for (const name of kept) all.set(name, await readFile(join(here, name)));
  return [...all.keys()]
    .sort()
    .map((name) => `${sha256(all.get(name))}  ${name}\n`)
    .join("");
}

/** Differences between node_modules and this directory; empty when equal. */
export async function differences() {
  const found = [];
  const contents = new Map();
  for (const [from, name] of copies) {
    const original = await readFile(join(modules, from));
    contents.set(name, original);
    const copy = await readFile(join(here, name)).catch(() => undefined);
    if (copy === undefined) found.push(`${name} is missing`);
    else if (!copy.equals(original)) found.push(`${name} differs from ${from}`);
  }
  const recorded = await readFile(join(here, "SHA256SUMS"), "utf8").catch(() => "");
  if (recorded !== (await sums(contents))) found.push("SHA256SUMS does not list these files");
  return found;
}

async function update() {
  const contents = new Map();
  for (const [from, name] of copies) contents.set(name, await readFile(join(modules, from)));
  for (const [name, bytes] of contents) await writeFile(join(here, name), bytes);
  await writeFile(join(here, "SHA256SUMS"), await sums(contents));
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  if (argv.includes("--check")) {
    const found = await differences();
    for (const line of found) console.error(line);
    exit(found.length === 0 ? 0 : 1);
  }
  await update();
}
