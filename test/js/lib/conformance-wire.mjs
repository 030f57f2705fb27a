// What the conformance host must do below the eyes of a SignalR client: status
// codes, headers, frames, and what happens when clients misbehave.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { delay, fails, holds, same, uncreatableMessage, within } from "./conformance-cases.mjs";
import { ask, Events, handshake, negotiate, negotiated, openPolling, poll, post, record, records, separator, Socket } from "./raw.mjs";

const require = createRequire(import.meta.url);
const { MessagePackHubProtocol } = require("@microsoft/signalr-protocol-msgpack");
const { NullLogger, LogLevel, HttpTransportType, TransferFormat } = require("@microsoft/signalr");
const { HttpConnection } = require(join(dirname(require.resolve("@microsoft/signalr")), "HttpConnection.js"));

const messagePack = new MessagePackHubProtocol();
const parse = (data) => messagePack.parseMessages(new Uint8Array(data).buffer, NullLogger.instance);

const origin = "http://elsewhere.example:81";
const cors = (headers) => [headers.get("access-control-allow-origin"), headers.get("access-control-allow-credentials")];
const allowed = [origin, "true"];

/** Every kind of request on a connection. */
const kinds = [
  ["POST", "/negotiate?negotiateVersion=1", {}],
  ["GET", "?id=ID", { Accept: "text/event-stream" }],
  ["GET", "?id=ID", {}],
  ["POST", "?id=ID", {}],
  ["DELETE", "?id=ID", {}],
];

/** The status with which a WebSocket is refused. */
async function upgradeStatus(url, headers) {
  const socket = new Socket(url, headers);
  const status = await within(socket.status, "upgrade");
  socket.drop();
  return status;
}

const token = async (base) => (await ask(`${base}/generateJwtToken`)).text;

/** @typedef {{row: string, run: (base: string) => Promise<void>}} Row */

/** @type {Row[]} */
const middleware = [
  { row: "A1.1 cross-origin headers on every answer", run: async (base) => {
    const headers = { Origin: origin };
    const url = await negotiated(base, "/testhub");
    for (const [status, method, path] of [
      [200, "POST", "/testhub/negotiate"], [401, "POST", "/authorizedhub/negotiate"], [404, "GET", "/nothing"], [404, "GET", "/testhub?id=x"],
      [307, "GET", "/echoredirect"], [200, "POST", "/redirect?baseUrl=x"], [400, "POST", "/bad-negotiate/negotiate"], [200, "GET", "/generateJwtToken"],
      [200, "GET", "/clientresult/x"], [200, "GET", "/file.txt"], [405, "GET", "/testhub/negotiate"],
    ]) {
      const answer = await ask(base + path, { method, headers });
      same([answer.status, ...cors(answer.headers)], [status, ...allowed], `${method} ${path}`);
    }
    for (const [method, status, body] of [["GET", 200], ["POST", 200, handshake()], ["GET", 200], ["DELETE", 202]]) {
      const answer = await ask(url, { method, headers, body });
      same([answer.status, ...cors(answer.headers)], [status, ...allowed], `${method} on a connection`);
    }
    const events = await Events.open(await negotiated(base, "/testhub"), headers);
    same(cors(events.response.headers), allowed, "event stream");
    events.drop();
    const none = await ask(`${base}/testhub/negotiate`, { method: "POST" });
    same(cors(none.headers), [null, null], "without Origin");
  } },
  { row: "A1.1 WebSockets from any origin", run: async (base) => same(await upgradeStatus(`${base}/testhub`, { Origin: origin }), 101) },
  { row: "A1.2 OPTIONS", run: async (base) => {
    const headers = { Origin: origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a,x-b" };
    for (const path of ["/authorizedhub/negotiate", "/authorizedhub?id=x", "/nothing", "/redirect"]) {
      const answer = await ask(base + path, { method: "OPTIONS", headers });
      same([answer.status, answer.text, ...cors(answer.headers)], [204, "", ...allowed], path);
      same([answer.headers.get("access-control-allow-methods"), answer.headers.get("access-control-allow-headers")], ["POST", "x-a,x-b"], path);
    }
  } },
  { row: "A1.3 static files", run: async (base) => {
    const script = await ask(`${base}/lib/signalr-webworker/signalr.js`);
    same([script.status, script.text], [200, await readFile(require.resolve("@microsoft/signalr/dist/browser/signalr.js"), "utf8")]);
    holds(/javascript/.test(script.headers.get("content-type")), script.headers.get("content-type"));
    same((await ask(`${base}/lib/nothing.js`)).status, 404);
    same((await ask(`${base}/..%2f..%2fetc/passwd`)).status, 404);
  } },
  { row: "A1.4 echoredirect", run: async (base) => {
    for (const [method, from, to] of [
      ["POST", "/echoredirect/negotiate?negotiateVersion=1", "/echo/negotiate?negotiateVersion=1"], ["GET", "/echoredirect?id=a%20b&x=1", "/echo?id=a%20b&x=1"], ["DELETE", "/echoredirect", "/echo"],
    ]) {
      const answer = await ask(base + from, { method });
      same([answer.status, answer.headers.get("location")], [307, to]);
    }
  } },
  { row: "A1.6 cookies", run: async (base) => {
    const attributes = base.startsWith("https") ? ["Partitioned", "SameSite=None", "Secure"] : [];
    const answer = await ask(`${base}/testhub/negotiate`, { method: "POST" });
    const cookies = answer.headers.getSetCookie().map((line) => line.split("; "));
    same(cookies.map(([pair]) => pair.split("=")[0]), ["testCookie", "testCookie2", "expiredCookie"]);
    same(cookies.slice(0, 2).map(([pair]) => pair), ["testCookie=testValue", "testCookie2=testValue2"]);
    for (const [i, [, ...rest]] of cookies.entries()) {
      same(rest.filter((attribute) => !attribute.startsWith("Expires=")).sort(), ["Path=/", ...attributes].sort(), "attributes");
      const expires = rest.find((attribute) => attribute.startsWith("Expires="))?.slice("Expires=".length);
      same(expires !== undefined, i === 2, "expires");
      if (expires) holds(Math.abs(Date.parse(expires) + 3_600_000 - Date.now()) < 60_000, expires);
    }
    same((await ask(`${base}/bad-negotiate/negotiate`, { method: "POST" })).headers.getSetCookie().length, 3, "on every negotiate");
    same((await ask(`${base}/generateJwtToken`)).headers.getSetCookie(), [], "elsewhere");
    const ofB = (await ask(`${base}/default/negotiate`, { method: "POST" })).headers.getSetCookie();
    holds(ofB.some((line) => line.startsWith("fromNegotiate=a%20value;")), ofB.join("\n"));
  } },
  { row: "A1.7 bad-negotiate", run: async (base) => {
    const answer = await ask(`${base}/bad-negotiate/negotiate`, { method: "POST" });
    same([answer.status, answer.text, answer.headers.get("content-length")], [400, "Some response from server", "25"]);
  } },
  { row: "A2 unknown paths", run: async (base) => {
    for (const path of ["/", "/nothing", "/testhub/x", "/negotiate"]) same((await ask(base + path, { method: "POST" })).status, 404, path);
  } },
  { row: "A3 redirect", run: async (base) => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(`${base}/redirect/negotiate?x=1&baseUrl=http://any.example/%2B`, { method: "POST" })));
    const numbers = answers.map(({ text }) => {
      const answer = JSON.parse(text);
      same(Object.keys(answer), ["url"]);
      const [, n] = answer.url.match(/^http:\/\/any\.example\/\+\/testhub\?numRedirects=(\d+)$/) ?? [];
      holds(Number(n) >= 1, answer.url);
      return n;
    });
    same(new Set(numbers).size, 20, "different numbers");
  } },
  { row: "B3 redirect with a token", run: async (base) => {
    const answer = await negotiate(base, "/redirect");
    same(Object.keys(answer).sort(), ["accessToken", "url"]);
    same(answer.url, `${base}/authorizedhub`);
    same((await ask(`${answer.url}/negotiate`, { method: "POST", headers: { Authorization: `Bearer ${answer.accessToken}` } })).status, 200);
  } },
];

/** @type {Row[]} */
const authorization = [
  { row: "A5 token", run: async (base) => {
    const answer = await ask(`${base}/generateJwtToken`);
    holds(answer.headers.get("content-type").startsWith("text/plain"), "type");
    const [head, body] = answer.text.split(".").slice(0, 2).map((part) => JSON.parse(Buffer.from(part, "base64url")));
    same(head.alg, "HS256");
    same([body.iss, [body.aud].flat()], ["SignalRTestServer", ["SignalRTests"]]);
    holds(Math.abs(body.exp - Date.now() / 1000 - 5) < 3, `expires ${body.exp}`);
    holds(Object.values(body).includes("testuser"), "names testuser");
    const other = JSON.parse(Buffer.from((await ask(`${base}/generateJwtToken/Some%20One`)).text.split(".")[1], "base64url"));
    holds(Object.values(other).includes("Some One"), "names Some One");
  } },
  { row: "A5 401 on every kind of request", run: async (base) => {
    for (const hub of ["/authorizedhub", "/authorizedhub2"]) {
      for (const [method, rest, headers] of kinds) {
        for (const bad of [{}, { Authorization: "Bearer x.y.z" }, { Authorization: "Basic eDp5" }]) {
          const answer = await ask(base + hub + rest, { method, headers: { ...headers, ...bad, Origin: origin } });
          same([answer.status, answer.reason, answer.text, answer.headers.get("content-length"), ...cors(answer.headers)],
            [401, base.startsWith("https") ? answer.reason : "Unauthorized", "", "0", ...allowed], `${method} ${rest}`);
        }
      }
      for (const query of ["", "?id=x", "?access_token=x"]) same(await upgradeStatus(base + hub + query), 401, `WebSocket ${query}`);
    }
  } },
  { row: "A5 where the token is read", run: async (base) => {
    const good = await token(base);
    const status = async (method, rest, headers) => (await ask(`${base}/authorizedhub${rest}`, { method, headers })).status;
    const query = `access_token=${good}`;
    for (const [method, rest, headers] of kinds) {
      const and = rest.includes("?") ? "&" : "?";
      const byHeader = await status(method, rest, { ...headers, Authorization: `bEARER ${good}` });
      same(byHeader, method === "POST" && rest.startsWith("/negotiate") ? 200 : 404, `${method} ${rest}`);
      same(await status(method, rest + and + query, headers), byHeader, "by query");
      same(await status(method, rest + and + query, { ...headers, Authorization: "Bearer x" }), 401, "the header comes first");
    }
    same(await upgradeStatus(`${base}/authorizedhub?${query}`), 101);
    same(await upgradeStatus(`${base}/authorizedhub`, { Authorization: `Bearer ${good}` }), 101);
    const url = await (async () => `${base}/authorizedhub?id=${(await negotiate(base, "/authorizedhub", `negotiateVersion=1&${query}`)).connectionToken}`)();
    same((await ask(`${url}&${query}`)).status, 200, "poll");
    for (const [method, body] of [["GET"], ["POST", handshake()], ["DELETE"]]) same((await ask(url, { method, body })).status, 401, `${method} without it`);
    same((await ask(`${url}&${query}`, { method: "DELETE" })).status, 202, "DELETE");
  } },
];

/** @type {Row[]} */
const negotiation = [
  { row: "A10.1 negotiate", run: async (base) => {
    const text = ["Text", "Binary"];
    const all = [{ transport: "WebSockets", transferFormats: text }, { transport: "ServerSentEvents", transferFormats: ["Text"] }, { transport: "LongPolling", transferFormats: text }];
    const one = await negotiate(base, "/testhub");
    same([one.negotiateVersion, one.availableTransports], [1, all]);
    holds(one.connectionId && one.connectionToken && one.connectionId !== one.connectionToken, "id and token");
    same(one.useStatefulReconnect, undefined);
    const zero = await negotiate(base, "/testhub", "");
    same([zero.availableTransports, zero.connectionToken, Boolean(zero.connectionId)], [all, undefined, true]);
    same((await ask(`${base}/testhub?id=${zero.connectionId}`)).status, 200, "version 0: the id serves");
    same((await ask(`${base}/testhub?id=${one.connectionId}`)).status, 404, "version 1: it does not");
    for (const method of ["GET", "PUT", "DELETE"]) same((await ask(`${base}/testhub/negotiate`, { method })).status, 405, method);
  } },
  { row: "A2 testhub-nowebsockets", run: async (base) => {
    const answer = await negotiate(base, "/testhub-nowebsockets");
    same(answer.availableTransports.map(({ transport }) => transport), ["ServerSentEvents", "LongPolling"]);
    holds(await upgradeStatus(`${base}/testhub-nowebsockets?id=${answer.connectionToken}`) >= 400, "refused with an id");
    holds(await upgradeStatus(`${base}/testhub-nowebsockets`) >= 400, "refused without");
  } },
  { row: "A10.6 unknown ids", run: async (base) => {
    for (const [method, rest, headers] of kinds.slice(1)) {
      const answer = await ask(`${base}/testhub${rest}`, { method, headers });
      same([answer.status, answer.text], [404, "No Connection with that ID"], `${method} ${rest}`);
    }
    same(await upgradeStatus(`${base}/testhub?id=x`), 404, "WebSocket");
  } },
  { row: "B2 negotiate versions", run: async (base) => {
    for (const version of ["", "0", "1", "11"]) {
      const answer = await negotiate(base, "/negotiateProtocolVersion12", version && `negotiateVersion=${version}`);
      same(answer, { error: `The client requested version '${version || 0}', but the server does not support this version.` });
    }
    holds((await negotiate(base, "/negotiateProtocolVersion12", "negotiateVersion=12")).connectionId, "12");
    for (const version of ["", "0", "1", "12"]) holds((await negotiate(base, "/negotiateProtocolVersionNegative", version && `negotiateVersion=${version}`)).connectionId, version);
  } },
  { row: "B4 negotiate", run: async (base) => {
    const query = "negotiateVersion=1&useStatefulReconnect=true";
    same((await negotiate(base, "/default", query)).useStatefulReconnect, true);
    for (const [hub, asked] of [["/default", "negotiateVersion=1"], ["/testhub", query], ["/dynamic", query]]) same((await negotiate(base, hub, asked)).useStatefulReconnect, undefined, hub);
  } },
];

/** Sends a handshake over a transport and returns what comes back, and the end. */
const overEach = {
  WebSockets: async (base, hub, bytes) => {
    const socket = new Socket(await negotiated(base, hub));
    await within(socket.status, "upgrade");
    socket.send(bytes);
    const { text, binary } = await socket.next();
    return { text, binary, end: async () => same((await within(socket.closed, "close")).code, 1000, "close status"), more: () => socket.next() };
  },
  ServerSentEvents: async (base, hub, bytes) => {
    const url = await negotiated(base, hub);
    const events = await Events.open(url);
    same((await post(url, bytes)).status, 200, "POST");
    return { text: await events.next(), end: async () => same(await within(events.ended, "end of the stream"), "end"), more: async () => ({ text: await events.next() }) };
  },
  LongPolling: async (base, hub, bytes) => {
    const url = await negotiated(base, hub);
    same((await ask(url)).text, "", "first poll");
    same((await post(url, bytes)).status, 200, "POST");
    const { text } = await poll(url);
    return { text, end: async () => same((await poll(url)).status, 204, "after the end"), more: () => poll(url) };
  },
};

/** @type {Row[]} */
const handshakes = [
  { row: "A10.7 handshake errors", run: async (base) => {
    for (const [transport, open] of Object.entries(overEach)) {
      for (const [hub, request, error] of [
        ["/testhub", handshake("nothing"), "The protocol 'nothing' is not supported."],
        ["/testhub", handshake("json", 3), "The server does not support version 3 of the 'json' protocol."],
        ["/version", handshake("json", 1001), "The server does not support version 1001 of the 'json' protocol."],
        ["/version", handshake("messagepack"), "The protocol 'messagepack' is not supported."],
      ]) {
        const { text, binary, end } = await open(base, hub, request);
        same([records(text), Boolean(binary)], [[{ error }], false], transport);
        await end();
      }
      const { text, end } = await open(base, "/testhub", `[1]${separator}`);
      holds(records(text)[0].error.startsWith("An unexpected error occurred during connection handshake."), text);
      await end();
    }
    same((await overEach.WebSockets(base, "/version", handshake("json", 1000))).text, `{}${separator}`, "version 1000");
  } },
  { row: "A10.7 event streams refuse messagepack", run: async (base) => {
    const { text, end } = await overEach.ServerSentEvents(base, "/testhub", handshake("messagepack"));
    same(records(text), [{ error: "Cannot use the 'messagepack' protocol on the current transport. The transport does not support 'Binary' transfer format." }]);
    await end();
  } },
  { row: "A10.7 kinds of frames", run: async (base) => {
    for (const asText of [true, false]) {
      const json = new Socket(`${base}/testhub`);
      await within(json.status, "upgrade");
      json.ws.send(Buffer.from(handshake()), { binary: !asText });
      const answer = await json.next();
      same([answer.text, answer.binary], [`{}${separator}`, false], "json");
      json.ws.send(Buffer.from(record({ type: 1, invocationId: "0", target: "Echo", arguments: ["x"] })), { binary: !asText });
      same((await json.record()).result, "x");
      json.drop();

      const pack = new Socket(`${base}/testhub`);
      await within(pack.status, "upgrade");
      pack.ws.send(Buffer.from(handshake("messagepack")), { binary: !asText });
      const packed = await pack.next();
      same([packed.text, packed.binary], [`{}${separator}`, true], "messagepack");
      pack.ws.send(Buffer.from(messagePack.writeMessage({ type: 1, headers: {}, invocationId: "0", target: "Echo", arguments: ["x"], streamIds: [] })), { binary: true });
      const result = await pack.next();
      same([parse(result.data)[0].result, result.binary], ["x", true], "messagepack data");
      pack.drop();
    }
  } },
  { row: "A10.7 more behind the handshake", run: async (base) => {
    const { text, more } = await overEach.WebSockets(base, "/testhub", handshake() + record({ type: 1, invocationId: "7", target: "Echo", arguments: ["x"] }));
    same(text.slice(0, 3), `{}${separator}`);
    const rest = text.length > 3 ? text.slice(3) : (await more()).text;
    same(records(rest)[0], { type: 3, invocationId: "7", result: "x" });
  } },
  { row: "A6 Close on every transport", run: async (base) => {
    const error = `Connection closed with an error. InvalidOperationException: ${uncreatableMessage}`;
    for (const [transport, open] of Object.entries(overEach)) {
      const { text, end, more } = await open(base, "/uncreatable", handshake());
      const all = text.length > 3 ? text.slice(3) : (await more()).text;
      same(records(all), [{ type: 7, error }], transport);
      await end();
    }
  } },
];

/** @type {Row[]} */
const transports = [
  { row: "A10.2 WebSocket without negotiate", run: async (base) => {
    for (const hub of ["/testhub", "/TestHub/"]) (await Socket.open(`${base}${hub}`)).drop();
  } },
  { row: "A10.3 event streams begin at once", run: async (base) => {
    const events = await Events.open(await negotiated(base, "/testhub"));
    same([events.response.status, events.response.headers.get("content-type")], [200, "text/event-stream"]);
    events.drop();
  } },
  { row: "A10.3 a second event stream is refused", run: async (base) => {
    const url = await negotiated(base, "/testhub");
    const events = await Events.open(url);
    same((await ask(url, { headers: { Accept: "text/event-stream" } })).status, 409);
    same((await ask(url)).status, 400, "another transport");
    same((await ask(url, { method: "DELETE" })).status, 400, "DELETE");
    events.drop();
  } },
  { row: "A10.4 polls", run: async (base) => {
    const url = await negotiated(base, "/testhub");
    const first = await ask(url);
    same([first.status, first.text, first.headers.get("cache-control")?.replaceAll(" ", "")], [200, "", "no-cache,no-store"], "first");
    const calls = [1, 2, 3].map((n) => record({ type: 1, invocationId: `${n}`, target: "Echo", arguments: [`${n}`] })).join("");
    same((await post(url, handshake())).text, "");
    same((await poll(url)).text, `{}${separator}`);
    const posted = await post(url, calls);
    same([posted.status, posted.text], [200, ""]);
    const got = [];
    while (got.length < 3) got.push(...records((await poll(url)).text));
    same(got.map(({ result }) => result), ["1", "2", "3"]);
  } },
  { row: "A10.4 DELETE ends the connection", run: async (base) => {
    const { url } = await openPolling(base, "/testhub");
    const waiting = ask(url);
    await delay(50);
    const answer = await ask(url, { method: "DELETE" });
    same([answer.status, answer.text], [202, ""]);
    same((await within(waiting, "the waiting poll", 2000)).status, 204, "the waiting poll");
    for (const method of ["GET", "POST", "DELETE"]) same((await ask(url, { method })).status, 404, `${method} afterwards`);
  } },
  { row: "A10.4 204 at the end", run: async (base) => {
    const { url } = await openPolling(base, "/default");
    await post(url, record({ type: 1, target: "Abort", arguments: [] }));
    same(records((await poll(url)).text).at(-1), { type: 7 });
    same([(await ask(url)).status, (await ask(url)).status], [204, 404]);
  } },
  { row: "A10.4 concurrent polls", run: async (base) => {
    const { url } = await openPolling(base, "/testhub");
    const older = ask(url);
    await delay(50);
    const newer = ask(url);
    same((await within(older, "the older poll", 2000)).status, 204, "the older poll");
    await post(url, record({ type: 1, invocationId: "1", target: "Echo", arguments: ["to the newer"] }));
    same(records((await newer).text)[0].result, "to the newer");
    const many = Promise.all(Array.from({ length: 8 }, () => ask(url)));
    await delay(100);
    await ask(url, { method: "DELETE" });
    for (const { status } of await many) holds([204, 409].includes(status), `status ${status} of a crowd`);
  } },
  { row: "A10.5 POST carries bytes, not messages", run: async (base) => {
    const { url } = await openPolling(base, "/testhub");
    const text = record({ type: 1, invocationId: "1", target: "Echo", arguments: ["in pieces ✓"] });
    for (const byte of [Buffer.from(text).subarray(0, 5), Buffer.from(text).subarray(5)]) same((await post(url, byte)).status, 200);
    same(records((await poll(url)).text)[0].result, "in pieces ✓");
    await ask(url, { method: "DELETE" });
  } },
  { row: "A10.6 ended ids", run: async (base) => {
    const url = await negotiated(base, "/testhub");
    const socket = await Socket.open(url);
    same(await upgradeStatus(url), 409, "in use");
    same((await post(url, "x")).status, 405, "POST to a WebSocket");
    socket.ws.close();
    await within(socket.closed, "close");
    for (let i = 0; i < 100 && (await ask(url)).status !== 404; i++) await delay(10);
    same(await upgradeStatus(url), 404, "ended");
  } },
  { row: "A4 void completions", run: async (base) => {
    const json = await Socket.open(`${base}/testhub`);
    json.send(record({ type: 1, invocationId: "1", target: "Echo", arguments: [null] }) + record({ type: 1, invocationId: "2", target: "InvokeWithString", arguments: ["x"] }));
    const texts = [];
    while (texts.join("").split(separator).length < 4) texts.push((await json.next()).text);
    const raw = texts.join("");
    holds(raw.includes('"invocationId":"1","result":null}') && raw.includes('"invocationId":"2","result":null}'), raw);
    json.drop();
    const pack = await Socket.open(`${base}/testhub`, "messagepack");
    pack.send(Buffer.from(messagePack.writeMessage({ type: 1, headers: {}, invocationId: "1", target: "Echo", arguments: [null], streamIds: [] })));
    same((await pack.next()).data.toString("hex"), "07950380a13103c0");
    pack.drop();
  } },
  { row: "A4 headers, cookies and query of the transport's request", run: async (base) => {
    const { connectionToken } = await negotiate(base, "/testhub");
    const url = `${base}/testhub?numRedirects=41&id=${connectionToken}`;
    await ask(url, { headers: { "X-Own": "yes", Cookie: "a=1; own=b%20c" } });
    await post(url, handshake());
    await poll(url);
    await post(url, [["GetNumRedirects"], ["GetHeader", "x-own"], ["GetCookie", "own"]].map(([target, ...args], i) => record({ type: 1, invocationId: `${i}`, target, arguments: args })).join(""));
    const got = [];
    while (got.length < 3) got.push(...records((await poll(url)).text));
    same(got.map(({ result }) => result), [41, "yes", "b%20c"]);
    await ask(url, { method: "DELETE" });
  } },
  { row: "A10 size limit per record", run: async (base) => {
    const call = (n, text) => record({ type: 1, invocationId: `${n}`, target: "Echo", arguments: [text] });
    const socket = await Socket.open(`${base}/testhub`);
    socket.send(Array.from({ length: 40 }, (_, i) => call(i, "x".repeat(3000))).join(""));
    let count = 0;
    while (count < 40) count += records((await socket.next()).text).length;
    same(count, 40, "many small records in one message");
    socket.send(call(99, "x".repeat(40_000)));
    const { type, error, allowReconnect } = await socket.record();
    same([type, error.startsWith("Connection closed with an error."), allowReconnect], [7, true, true], "one record that is too large");
    await within(socket.closed, "close");
  } },
  { row: "A10 malformed records end the connection", run: async (base) => {
    const socket = await Socket.open(`${base}/testhub`);
    socket.send(`[]${separator}`);
    const { type, allowReconnect } = await socket.record();
    same([type, allowReconnect], [7, true]);
    await within(socket.closed, "close");
  } },
];

/** @type {Row[]} */
const rawEcho = [
  { row: "A7 raw echo on WebSockets", run: async (base) => {
    for (const url of [`${base}/echo`, await negotiated(base, "/echo")]) {
      const socket = new Socket(url);
      same(await within(socket.status, "upgrade"), 101);
      for (const [data, text] of [["hello", "hello"], [Buffer.from("✓ binary"), "✓ binary"]]) {
        socket.send(data);
        const answer = await socket.next();
        same([answer.text, answer.binary], [text, false]);
      }
      socket.ws.send("first ", { fin: false });
      same((await socket.next()).text, "first ", "a fragment");
      socket.ws.send("last", { fin: true });
      same((await socket.next()).text, "last", "the rest");
      const bytes = Buffer.from("a🚀b");
      socket.send(bytes.subarray(0, 3));
      socket.send(bytes.subarray(3));
      let text = "";
      while (text.length < 4) {
        const answer = await socket.next();
        same(Buffer.from(answer.text).equals(answer.data), true, "whole characters");
        text += answer.text;
      }
      same(text, "a🚀b");
      socket.drop();
    }
  } },
  { row: "A7 raw echo, large", run: async (base) => {
    const want = "0123456789abcdé".repeat(70_000);
    const socket = new Socket(`${base}/echo`);
    await within(socket.status, "upgrade");
    socket.send(want);
    let got = "";
    while (got.length < want.length) got += (await socket.next()).text;
    same(got === want, true);
    socket.drop();
  } },
  { row: "A7 an empty close frame is answered with 1000", run: async (base) => {
    const raw = new Socket(`${base}/echo`);
    await within(raw.status, "upgrade");
    const hub = await Socket.open(`${base}/testhub`);
    for (const socket of [raw, hub]) {
      socket.ws.close();
      same((await within(socket.closed, "close")).code, 1000);
    }
  } },
  { row: "A7 raw echo by the client's HttpConnection", run: async (base) => {
    for (const path of ["/echo", "/echoredirect"]) {
      for (const [transport, kind] of Object.entries({ WebSockets: 1, ServerSentEvents: 2, LongPolling: 4 })) {
        if (path === "/echoredirect" && kind !== 4) continue; // clients follow it neither for upgrades nor, in Node, for event streams
        same(HttpTransportType[transport], kind);
        const connection = new HttpConnection(base + path, { transport: kind, logger: LogLevel.None });
        const got = [];
        let wake;
        connection.onreceive = (data) => {
          got.push(data);
          wake?.();
        };
        await within(connection.start(TransferFormat.Text), `start over ${transport}`);
        for (const text of ["Hello ✓", "a\u001eb", "x".repeat(5000)]) {
          got.length = 0;
          await connection.send(text);
          while (got.join("") !== text) await within(new Promise((resolve) => (wake = resolve)), `echo over ${transport}`);
        }
        await within(connection.stop(), "stop");
      }
    }
  } },
  { row: "A7 raw echo over polls and event streams", run: async (base) => {
    const polled = await negotiated(base, "/echo");
    same([(await ask(polled)).text, (await post(polled, "hello")).status, (await poll(polled)).text], ["", 200, "hello"]);
    same((await ask(polled, { method: "DELETE" })).status, 202);
    const streamed = await negotiated(base, "/echo");
    const events = await Events.open(streamed);
    await post(streamed, "hello\nworld");
    same(await events.next(), "hello\nworld");
    events.drop();
  } },
  { row: "A1.7 bad-negotiate, as clients show it", run: async (base) => {
    const err = await fails(new HttpConnection(`${base}/bad-negotiate`, { logger: LogLevel.None }).start(TransferFormat.Text));
    holds(err.message.includes("Status code '400'"), err.message);
  } },
];

/** Rows that take their time; they run beside each other. @type {Row[]} */
export const slow = [
  { row: "A10.10 pings every 15 s, and none over long polling", run: async (base) => {
    const socket = await Socket.open(`${base}/testhub`);
    const url = await negotiated(base, "/testhub");
    const events = await Events.open(url);
    await post(url, handshake());
    await events.next();
    const { url: polled } = await openPolling(base, "/testhub");
    const quiet = ask(polled, {}, 40_000);
    const begun = Date.now();
    same(records((await socket.next(20_000)).text), [{ type: 6 }]);
    const took = Date.now() - begun;
    same(records(await events.next(5000)), [{ type: 6 }]);
    holds(took > 10_000 && took < 18_000, `after ${took} ms`);
    socket.drop();
    events.drop();
    await ask(polled, { method: "DELETE" });
    same((await quiet).status, 204, "the poll");
  } },
  { row: "A10.10 client timeout counts from its first ping", run: async (base) => {
    const silent = await Socket.open(`${base}/testhub`);
    const socket = await Socket.open(`${base}/testhub`);
    socket.send(record({ type: 6 }));
    const begun = Date.now();
    const close = await socket.record(40_000);
    const took = Date.now() - begun;
    holds(close.type === 7 && close.allowReconnect && close.error.startsWith("Connection closed with an error."), JSON.stringify(close));
    holds(took > 25_000 && took < 37_000, `after ${took} ms`);
    silent.send(record({ type: 1, invocationId: "1", target: "Echo", arguments: ["alive"] }));
    same((await silent.record()).result, "alive", "one that never pinged");
    silent.drop();
  } },
  { row: "A10.1 a token that is not used expires", run: async (base) => {
    const url = await negotiated(base, "/testhub");
    await delay(18_000);
    same([(await ask(url)).status, await upgradeStatus(url)], [404, 404]);
  } },
  { row: "A10.4 a client that polls no more is gone", run: async (base) => {
    const { url } = await openPolling(base, "/testhub");
    await delay(20_000);
    holds([204, 404].includes((await ask(url)).status), "the next poll");
    same((await ask(url)).status, 404, "and the one after it");
  } },
];

export const wire = [...middleware, ...authorization, ...negotiation, ...handshakes, ...transports, ...rawEcho];
