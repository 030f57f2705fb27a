// The dashboard in a real browser, against a server and against the demo.

import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";
import { after, before, describe, test } from "node:test";

import { checkAccessibility, inState, openPage, startBrowser } from "./lib/browser.mjs";
import { connect } from "./lib/client.mjs";
import { startServer, switchboard } from "./lib/server.mjs";

let program;
let browser;
let screenshots;

before(async () => {
  program = await switchboard();
  browser = await startBrowser();
  screenshots = env.SCREENSHOT_DIR ?? (await mkdtemp(join(tmpdir(), "switchboard-screenshots-")));
});

after(async () => {
  await browser?.close();
  await program?.remove();
});

/** Takes a picture and says where it is. */
async function picture(t, page, name) {
  const path = join(screenshots, `${name}.png`);
  await page.screenshot({ path });
  t.diagnostic(`screenshot ${path}`);
}

/** Joins a group by the page's form. */
async function join_(page, group) {
  await page.fill("#group", group);
  await page.click("#join button");
  await page.waitForSelector(`#groups .chip[title="${group}"]`);
}

/** Sends by the page's form. */
async function send(page, to, recipient, target, body) {
  await page.locator(`label:has(input[name="to"][value="${to}"])`).click();
  if (to !== "all") await page.fill("#recipient", recipient);
  await page.fill("#target", target);
  await page.fill("#body", body);
  await page.click('#send button[type="submit"]');
}

/** Waits for a row of the list with these arguments. */
const arrived = (page, text) => page.locator("#messages tr", { has: page.getByText(text, { exact: true }) }).first().waitFor();

const text = (page, selector) => page.locator(selector).innerText();

describe("the page of one server", () => {
  let server;

  before(async () => {
    server = await startServer(program.file, { instance: "solo" });
  });
  after(() => server?.stop());

  test("it is live, joins, sends and shows what arrives", async (t) => {
    const { page, complaints } = await openPage(t, browser, `${server.base}/?user=alice`);
    await inState(page, "live");
    assert.equal(await text(page, "#state"), "Live");
    assert.match(await text(page, "#instance"), /^solo/);
    assert.match(await text(page, "#connection-facts"), /json.*user alice/);
    assert.equal(await page.locator("#ticks-panel").isVisible(), false);

    await join_(page, "room-1");
    await send(page, "group", "room-1", "Message", "hello, group");
    await arrived(page, '"hello, group"');
    await send(page, "user", "alice", "Message", '["hello, user", 1099511627776, null]');
    await arrived(page, '"hello, user", 1099511627776, null');
    await send(page, "all", "", "Message", "hello, everyone");
    await arrived(page, '"hello, everyone"');
    await page.waitForFunction(() => /^[1-9]/.test(document.getElementById("total").textContent));

    await picture(t, page, "serve-json");
    assert.deepEqual(complaints, []);
  });

  test("it speaks MessagePack, too, and keeps its groups", async (t) => {
    const { page, complaints } = await openPage(t, browser, server.base);
    await inState(page, "live");
    await join_(page, "room-2");
    await page.locator('label:has(input[value="messagepack"])').click();
    await page.locator("#connection-facts", { hasText: "messagepack" }).waitFor();
    await inState(page, "live");
    await send(page, "group", "room-2", "Message", '[{"a": [1, null, -1]}, false]');
    await arrived(page, '{"a":[1,null,-1]}, false');
    assert.match(page.url(), /protocol=messagepack/);
    assert.match(page.url(), /group=room-2/);
    assert.deepEqual(complaints, []);
  });

  test("it takes its settings from the address", async (t) => {
    const { page, complaints } = await openPage(t, browser, `${server.base}/?user=bob&protocol=messagepack&group=a&group=b`);
    await inState(page, "live");
    assert.match(await text(page, "#connection-facts"), /messagepack.*user bob/);
    assert.deepEqual(await page.locator("#groups .chip").evaluateAll((chips) => chips.map((chip) => chip.title)), ["a", "b"]);
    assert.deepEqual(complaints, []);
  });

  test("it leaves a group", async (t) => {
    const { page } = await openPage(t, browser, `${server.base}/?group=gone&group=kept`);
    await inState(page, "live");
    await page.click('button[aria-label="Leave gone"]');
    await page.waitForSelector('#groups .chip[title="gone"]', { state: "detached" });
    const client = await connect(t, server.base);
    await client.invoke("SendToGroup", "gone", "Message", ["not for you"]);
    await client.invoke("SendToGroup", "kept", "Message", ["for you"]);
    await arrived(page, '"for you"');
    assert.equal(await page.locator("#messages tr").count(), 1);
  });

  test("it shows hostile text as text", async (t) => {
    const hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
    const { page, complaints } = await openPage(t, browser, server.base);
    await inState(page, "live");
    await join_(page, "hostile<b>");
    const client = await connect(t, server.base);
    await client.invoke("SendToGroup", "hostile<b>", "Message", [hostile, { [hostile]: hostile }]);
    await arrived(page, `${JSON.stringify(hostile)}, ${JSON.stringify({ [hostile]: hostile })}`);
    assert.equal(await page.locator("main img, main script, main b").count(), 0);
    assert.match(await page.title(), /Live/);
    assert.deepEqual(complaints, []);
  });

  test("it keeps the newest 200 rows", async (t) => {
    const { page, complaints } = await openPage(t, browser, `${server.base}/?group=many`);
    await inState(page, "live");
    const client = await connect(t, server.base);
    for (let i = 1; i <= 450; i++) await client.send("SendToGroup", "many", "Message", [`number ${i}`]);
    await arrived(page, '"number 450"');
    assert.equal(await page.locator("#messages tr").count(), 200);
    assert.match(await page.locator("#messages tr").first().innerText(), /"number 450"/);
    assert.match(await page.locator("#messages tr").last().innerText(), /"number 251"/);
    assert.deepEqual(complaints, []);
  });

  test("it pauses and clears the list", async (t) => {
    const { page } = await openPage(t, browser, `${server.base}/?group=paused`);
    await inState(page, "live");
    const client = await connect(t, server.base);
    await page.click("#pause");
    assert.equal(await page.locator("#pause").getAttribute("aria-pressed"), "true");
    await client.invoke("SendToGroup", "paused", "Message", ["later"]);
    await page.locator("#total", { hasText: "1 received" }).waitFor();
    assert.equal(await page.locator("#messages tr").count(), 0);
    await page.click("#pause");
    await arrived(page, '"later"');
    await page.click("#clear");
    assert.equal(await page.locator("#messages tr").count(), 0);
    assert.equal(await page.locator("#no-messages").isVisible(), true);
  });

  test("it offers to listen for a target nobody listens for", async (t) => {
    const { page, complaints } = await openPage(t, browser, `${server.base}/?group=surprise`);
    await inState(page, "live");
    const client = await connect(t, server.base);
    await client.invoke("SendToGroup", "surprise", "Surprise", [1]);
    await page.getByRole("button", { name: "surprise", exact: true }).click();
    await client.invoke("SendToGroup", "surprise", "Surprise", ["heard"]);
    await arrived(page, '"heard"');
    assert.deepEqual(complaints, []);
  });

  test("it says what the server refuses", async (t) => {
    const { page, complaints } = await openPage(t, browser, server.base);
    await inState(page, "live");
    await send(page, "group", "x", "Message", "[1,");
    assert.match(await text(page, "#send-error"), /no JSON/);
    await page.fill("#body", "x");
    await page.fill("#target", "\u0007");
    await page.click('#send button[type="submit"]');
    await page.locator("#send-error", { hasText: /.+/ }).waitFor();
    assert.deepEqual(complaints, []);
  });

  test("it works by keyboard alone", async (t) => {
    const { page } = await openPage(t, browser, server.base);
    await inState(page, "live");
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.keyboard.press("Tab"); // the skip link
    for (let i = 0; i < 20 && (await focused()) !== "group"; i++) await page.keyboard.press("Tab");
    await page.keyboard.type("by-keyboard");
    await page.keyboard.press("Enter");
    await page.waitForSelector('#groups .chip[title="by-keyboard"]');
    for (let i = 0; i < 20 && (await focused()) !== "body"; i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("typed");
    await page.keyboard.press("Control+Enter");
    await arrived(page, '"typed"');
  });

  for (const [name, options] of Object.entries({
    "wide and light": { colorScheme: "light" },
    "wide and dark": { colorScheme: "dark" },
    "narrow and light": { colorScheme: "light", viewport: { width: 390, height: 844 } },
    "320 pixels and dark": { colorScheme: "dark", viewport: { width: 320, height: 640 } },
  })) {
    test(`it is accessible: ${name}`, async (t) => {
      const { page } = await openPage(t, browser, `${server.base}/?group=axe`, { reducedMotion: "reduce", ...options });
      await inState(page, "live");
      await send(page, "group", "axe", "Message", '["x", {"long": "0123456789012345678901234567890123456789"}]');
      await page.locator("#messages tr").first().waitFor();
      await checkAccessibility(page);
      const [needed, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(needed <= there, `the page is ${needed} pixels wide on ${there}`);
      await picture(t, page, name.replaceAll(" ", "-"));
    });
  }

  test("it is accessible while offline", async (t) => {
    const { page, complaints } = await openPage(t, browser, server.base, { reducedMotion: "reduce" });
    await inState(page, "live");
    await page.click("#disconnect");
    await inState(page, "offline");
    assert.match(await text(page, "#state-detail"), /^since \d\d:\d\d:\d\d$/);
    await checkAccessibility(page);
    await page.click("#reconnect");
    await inState(page, "live");
    assert.deepEqual(complaints, []);
  });
});

test("the page comes back with its groups when the server does", async (t) => {
  let server = await startServer(program.file);
  t.after(() => server.stop("SIGKILL"));
  const { page } = await openPage(t, browser, `${server.base}/?user=alice&group=again`);
  await inState(page, "live");
  await server.stop();
  await inState(page, "reconnecting");
  await picture(t, page, "reconnecting");
  server = await startServer(program.file, { port: server.port });
  await inState(page, "live");
  const client = await connect(t, server.base);
  await client.invoke("SendToGroup", "again", "Message", ["back"]);
  await arrived(page, '"back"');
});

describe("the page of the demo", () => {
  let demo;

  before(async () => {
    demo = await startServer(program.file, { command: "demo" });
  });
  after(() => demo?.stop());

  /** Names in the table of ticks. */
  const ticking = (page) => page.locator("#ticks tr", { has: page.getByText("ticking", { exact: true }) });

  test("it shows ticks of both instances", async (t) => {
    const { page, complaints } = await openPage(t, browser, demo.base);
    await inState(page, "live");
    await ticking(page).nth(1).waitFor();
    await page.getByRole("checkbox", { name: "Show Tick" }).check();
    await page.locator("#messages tr", { hasText: "Tick" }).first().waitFor();
    await picture(t, page, "demo");
    await checkAccessibility(page);
    assert.deepEqual(complaints, []);
  });

  for (const transport of ["websockets", "sse", "longpolling"]) {
    test(`it works without sticky sessions over ${transport}`, async (t) => {
      const { page, complaints } = await openPage(t, browser, `${demo.base}/?transport=${transport}`);
      await inState(page, "live");
      await ticking(page).nth(1).waitFor();
      await join_(page, "room-1");
      for (let i = 0; i < 5; i++) {
        await send(page, "group", "room-1", "Message", `${transport} ${i}`);
        await arrived(page, `"${transport} ${i}"`);
      }
      assert.deepEqual(complaints, []);
    });
  }

  test("it moves between instances and hears both from each, in both protocols", async (t) => {
    const { page, complaints } = await openPage(t, browser, demo.base);
    await inState(page, "live");
    await join_(page, "room-1");
    const seen = new Set();
    for (let i = 0; i < 12 && seen.size < 2; i++) {
      const protocol = i % 2 === 0 ? "messagepack" : "json";
      await page.click("#reconnect");
      await inState(page, "live");
      seen.add(await page.locator("#instance").getAttribute("title"));
      await page.locator(`label:has(input[value="${protocol}"])`).click();
      await page.locator("#connection-facts", { hasText: protocol }).waitFor();
      await inState(page, "live");
      seen.add(await page.locator("#instance").getAttribute("title"));
      await send(page, "group", "room-1", "Message", `message ${i}`);
      await arrived(page, `"message ${i}"`);
    }
    assert.equal(seen.size, 2, `seen: ${[...seen]}`);
    await ticking(page).nth(1).waitFor();
    await picture(t, page, "demo-messagepack");
    assert.deepEqual(complaints, []);
  });
});
