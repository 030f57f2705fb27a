// The parts of the dashboard that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { argumentsText, errorText, instanceName, maxText, milliseconds, notOffered, parseArguments } from "../../web/ui/assets/format.mjs";
import { hubURL, retryDelay } from "../../web/ui/assets/session.mjs";

test("instanceName splits the random end off", () => {
  const hex = "0123456789abcdef0123456789abcdef";
  assert.deepEqual(instanceName(`hub-a1-${hex}`), { name: "hub-a1", tail: "012345" });
  assert.deepEqual(instanceName("host.example-01234567-89ab-cdef-0123-456789abcdef"), { name: "host.example", tail: "012345" });
  assert.deepEqual(instanceName("plain"), { name: "plain", tail: "" });
  assert.deepEqual(instanceName(hex), { name: hex, tail: "" });
  for (const unknown of [undefined, null, "", 7, {}]) assert.equal(instanceName(unknown).name, "—");
});

test("argumentsText shows whatever can arrive", () => {
  assert.equal(argumentsText([]), "");
  assert.equal(argumentsText(["hi", null, 0, false, { a: [1] }]), '"hi", null, 0, false, {"a":[1]}');
  assert.equal(argumentsText([new Uint8Array(3), new ArrayBuffer(4), 2n ** 64n]), '"<3 bytes>", "<4 bytes>", "18446744073709551616n"');
  assert.equal(argumentsText([undefined]), "undefined");
  const circle = {};
  circle.self = circle;
  assert.equal(argumentsText([circle]), "[object Object]");
  assert.ok(argumentsText(["x".repeat(maxText * 2)]).length < maxText + 40);
});

test("parseArguments takes text as one argument and a JSON array as several", () => {
  assert.deepEqual(parseArguments("hello"), ["hello"]);
  assert.deepEqual(parseArguments(""), [""]);
  assert.deepEqual(parseArguments('{"a":1}'), ['{"a":1}']);
  assert.deepEqual(parseArguments(' ["a", 1, null, {"b": [2]}]'), ["a", 1, null, { b: [2] }]);
  assert.deepEqual(parseArguments("[]"), []);
  assert.throws(() => parseArguments("[1,"), /no JSON/);
});

test("milliseconds rounds for a figure", () => {
  assert.deepEqual([0.123, 1.25, 99.94, 1234.5, NaN].map(milliseconds), ["0.12", "1.3", "99.9", "1,235", "—"]);
});

test("errorText shows the words of the server", () => {
  const wrapped = "An unexpected error occurred invoking 'JoinGroup' on the server. HubException: not allowed";
  assert.equal(errorText(new Error(wrapped)), "not allowed");
  assert.match(errorText(new Error("Failed to complete negotiation with the server: Error: Unauthorized: Status code '401'")), /access token/);
  assert.equal(errorText(new Error("Not connected.")), "Not connected.");
});

test("notOffered tells a transport that is missing from one that failed", () => {
  const head = "Unable to connect to the server with any of the available transports.";
  assert.equal(notOffered(`${head} WebSockets failed: 'WebSockets' is disabled by the client.`), true);
  assert.equal(notOffered(`${head} WebSockets failed: 'WebSockets' is disabled by the client. ServerSentEvents failed: 'ServerSentEvents' does not support Binary.`), true);
  assert.equal(notOffered(`${head} WebSockets failed: Error: There was an error with the transport.`), false);
  assert.equal(notOffered(`${head} WebSockets failed: 'WebSockets' is disabled by the client. LongPolling failed: Error: 502`), false);
  assert.equal(notOffered("Not connected."), false);
});

test("retryDelay grows to at most ten seconds and is never fixed", () => {
  assert.equal(retryDelay(0), 0);
  for (let n = 1; n < 50; n++) {
    const ms = retryDelay(n);
    assert.ok(ms >= 250 && ms <= 10_000, `${n}: ${ms}`);
  }
  assert.ok(retryDelay(1000) >= 5000);
});

test("hubURL stays on its own origin and escapes the user id", () => {
  globalThis.location = /** @type {any} */ ({ origin: "https://hub.example:8443" });
  try {
    assert.equal(hubURL({ hub: "/hub", user: "" }), "https://hub.example:8443/hub");
    assert.equal(hubURL({ hub: "/hub", user: "a&b=c d" }), "https://hub.example:8443/hub?user_id=a%26b%3Dc+d");
    assert.throws(() => hubURL({ hub: "//evil.example/hub", user: "" }), /not a path of this server/);
    assert.throws(() => hubURL({ hub: "https://evil.example/hub", user: "" }), /not a path of this server/);
    assert.throws(() => hubURL({ hub: "javascript:alert(1)", user: "" }), /not a path of this server/);
  } finally {
    delete globalThis.location;
  }
});
