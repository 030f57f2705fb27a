// The system's Chromium, and a page that complains when something is wrong.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { env } from "node:process";

import { chromium } from "playwright-core";

import { patience } from "./client.mjs";

const require = createRequire(import.meta.url);

const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts /usr/bin/chromium, or what CHROMIUM names. The caller closes it. */
export function startBrowser() {
  return chromium.launch({ executablePath: env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
}

/**
 * Opens a page in a context of its own, closed when the test is done.
 * `complaints` collects console errors and warnings, uncaught errors, failed
 * requests and violations of the Content-Security-Policy.
 * @param {import("node:test").TestContext} t
 * @param {import("playwright-core").Browser} browser
 * @param {string} url
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function openPage(t, browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 940 }, ...options });
  t.after(() => context.close());
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  /** @type {string[]} */
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (err) => complaints.push(`uncaught: ${err}`));
  page.on("requestfailed", (request) => complaints.push(`request failed: ${request.url()} ${request.failure()?.errorText}`));
  await context.exposeBinding("complainAbout", (_, text) => complaints.push(text));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      globalThis.complainAbout(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  await page.goto(url);
  return { page, complaints };
}

/** Waits until the page shows this state. @param {import("playwright-core").Page} page @param {"live" | "reconnecting" | "offline"} name */
export function inState(page, name) {
  return page.waitForSelector(`#state[data-state="${name}"]`);
}

/** Fails when axe finds anything serious or critical. @param {import("playwright-core").Page} page */
export async function checkAccessibility(page) {
  // Evaluated by the browser's debugger, which the page's policy does not bind.
  await page.evaluate(await readFile(require.resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(async () => (await globalThis.axe.run()).violations);
  const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`), []);
}
