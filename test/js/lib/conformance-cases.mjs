// What a client must see of the conformance host, over every pair of transport
// and protocol. Runs in Node and in browsers alike: nothing is imported, the
// libraries come in through `Client`.

/** Pairs of transport and protocol; event streams carry text only. */
export const pairs = [
  { transport: "WebSockets", protocol: "json" },
  { transport: "WebSockets", protocol: "messagepack" },
  { transport: "ServerSentEvents", protocol: "json" },
  { transport: "LongPolling", protocol: "json" },
  { transport: "LongPolling", protocol: "messagepack" },
];

/** Name of a pair in tables. */
export const nameOf = ({ transport, protocol }) =>
  `${{ WebSockets: "WS", ServerSentEvents: "SSE", LongPolling: "LP" }[transport]} ${protocol === "json" ? "json" : "msgpack"}`;

/** Message of /uncreatable's error, given to the host as a flag. */
export const uncreatableMessage = "Unable to make 'Hub' – <\"{0}\">";

/** Milliseconds a case waits for one thing. */
const patience = 20_000;

export const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits for a promise, but not for ever. */
export function within(promise, what, limit = patience) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what}: nothing within ${limit} ms`)), limit)));
  const first = Promise.race([promise, late]).finally(() => clearTimeout(timer));
  first.catch(() => undefined); // whoever waits later, sees it later
  return first;
}

/** A value as text, in which equal values are equal. */
function shown(value) {
  if (value === undefined) return "undefined";
  return JSON.stringify(value, function (key, v) {
    const raw = this[key];
    if (raw instanceof Date) return { $date: raw.getTime() };
    if (v instanceof Uint8Array) return { $bytes: [...v] };
    if (v && typeof v === "object" && !Array.isArray(v)) return Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)));
    return v;
  });
}

export function same(got, want, what = "value") {
  if (shown(got) !== shown(want)) throw new Error(`${what}: got ${shown(got)}, want ${shown(want)}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

/** The promise must fail, with this text if one is given. */
export async function fails(promise, text) {
  let value;
  try {
    value = await within(promise, "failure");
  } catch (err) {
    if (text !== undefined) same(err.message, text, "error");
    return err;
  }
  throw new Error(`no failure but ${shown(value)}, want ${text}`);
}

/** Collects a stream; fails as the stream does. */
export function collect(stream) {
  return within(
    new Promise((resolve, reject) => {
      const items = [];
      stream.subscribe({ next: (item) => items.push(item), complete: () => resolve(items), error: reject });
    }),
    "end of the stream",
  );
}

/** Resolves with the arguments of the next call of a client method. */
export const called = (client, target) => within(new Promise((resolve) => client.on(target, (...args) => resolve(args))), target);

/** Resolves when the connection has closed, with its error. */
export const closed = (client) => within(new Promise((resolve) => client.onclose(resolve)), "close");

/** One pair of transport and protocol at one address, and the clients of one case. */
export class Client {
  #libraries;
  #built = [];

  /** @param {{signalR: object, MessagePackHubProtocol: Function, browser: boolean}} libraries */
  constructor(libraries, base, pair, skipNegotiation = false) {
    this.#libraries = libraries;
    this.base = base;
    this.secure = base.startsWith("https:");
    this.browser = libraries.browser;
    this.skipNegotiation = skipNegotiation;
    Object.assign(this, pair);
    this.subject = () => new libraries.signalR.Subject();
  }

  /** A client that is not started. @param {string} path @param {object} [options] of withUrl */
  build(path, options = {}, change = (builder) => builder) {
    const { signalR, MessagePackHubProtocol } = this.#libraries;
    const builder = new signalR.HubConnectionBuilder()
      .withUrl(new URL(path, this.base).href, { transport: signalR.HttpTransportType[this.transport], skipNegotiation: this.skipNegotiation, ...options })
      .withHubProtocol(this.protocol === "json" ? new signalR.JsonHubProtocol() : new MessagePackHubProtocol())
      .configureLogging(signalR.LogLevel.None);
    const client = change(builder).build();
    this.#built.push(client);
    return client;
  }

  async connect(path, options, change) {
    const client = this.build(path, options, change);
    await within(client.start(), "start");
    return client;
  }

  /** GET with the answer's text. */
  async get(path) {
    const response = await within(fetch(new URL(path, this.base)), path);
    return { status: response.status, text: await response.text(), type: response.headers.get("content-type") };
  }

  token = async (name) => (await this.get(`/generateJwtToken${name ? `/${name}` : ""}`)).text;

  stop() {
    return Promise.all(this.#built.map((client) => client.stop()));
  }
}

const unexpected = (method, detail) => `An unexpected error occurred invoking '${method}' on the server. ${detail}`;
const failed = (method, detail) => `Failed to invoke '${method}' due to an error on the server. ${detail}`;
const counted = (x, y) => `InvalidDataException: Invocation provides ${x} argument(s) but target expects ${y}.`;
const mismatch = "InvalidDataException: Error binding arguments. Make sure that the types of the provided values match the types of the hub method being invoked.";

/** A case on one client of one hub. */
const on = (hub, run) => async (x) => run(await x.connect(hub), x);

/** The connection answers still. */
const alive = async (client) => same(await client.invoke("Echo", "still here"), "still here", "Echo afterwards");

/** A call or stream must fail with this text, and the connection go on. */
const refuses = (hub, call, text) =>
  on(hub, async (client, x) => {
    await fails(call(client, x), text);
    await alive(client);
  });

const upload = (x, client, method, items, end = (subject) => subject.complete()) => {
  const subject = x.subject();
  const result = within(client.invoke(method, subject), "result");
  for (const item of items) subject.next(item);
  end(subject);
  return result;
};

/** Streams what is uploaded. */
const streamed = (x, client, method, items, end = (subject) => subject.complete()) => {
  const subject = x.subject();
  const result = collect(client.stream(method, subject));
  for (const item of items) subject.next(item);
  end(subject);
  return result;
};

const complex = (x) => ({
  String: "hello, world ✓",
  IntArray: [0, -1, 2147483647],
  ByteArray: x.protocol === "json" ? "AQID" : new Uint8Array([1, 2, 3]),
  Guid: "0a0b0c0d-0405-0607-0706-050403020100",
  DateTime: x.protocol === "json" ? "2002-04-01T10:20:15Z" : new Date("2002-04-01T10:20:15Z"),
});

/**
 * @typedef {object} Case
 * @property {string} row of the table, what is required
 * @property {(x: Client) => Promise<void>} run
 * @property {boolean} [negotiated] not without negotiation
 * @property {string[]} [transports] all when missing
 * @property {boolean} [slow] waits more than it works
 * @property {boolean} [node] not in browsers, which cannot set or see it
 */

/** @type {Case[]} */
const setA = [
  { row: "A2 testhub-nowebsockets", negotiated: true, run: async (x) => {
    if (x.transport !== "WebSockets") return alive(await x.connect("/testhub-nowebsockets"));
    await fails(x.build("/testhub-nowebsockets").start());
  } },
  { row: "A2 testhub-nowebsockets refuses an upgrade", transports: ["WebSockets"], run: async (x) => {
    x.skipNegotiation = true;
    await fails(x.build("/testhub-nowebsockets").start());
  } },
  { row: "A2 paths in any case", run: async (x) => alive(await x.connect("/TESTHUB")) },
  { row: "A3 GetNumRedirects counts", negotiated: true, run: async (x) => {
    const path = `/redirect?baseUrl=${encodeURIComponent(x.base)}`;
    const first = await (await x.connect(path)).invoke("GetNumRedirects");
    const second = await (await x.connect(path)).invoke("GetNumRedirects");
    holds(first >= 1 && second > first, `${first}, then ${second}`);
  } },
  { row: "A4 Echo", run: on("/testhub", async (client) => {
    for (const text of ["hello", "", null, 'ünïcödé ✓ 漢字 🚀 "\\ \u0000\u001e\u2028 </script>', "x".repeat(20_000)]) same(await client.invoke("Echo", text), text);
  }) },
  { row: "A4 method names in any case", run: on("/testhub", async (client) => same(await client.invoke("eCHO", "x"), "x")) },
  { row: "A4 GetCallerConnectionId", run: on("/testhub", async (client, x) => {
    const id = await client.invoke("GetCallerConnectionId");
    holds(typeof id === "string" && id !== "", `id ${shown(id)}`);
    if (!x.skipNegotiation) same(id, client.connectionId);
  }) },
  { row: "A4 ThrowException", run: refuses("/testhub", (client) => client.invoke("ThrowException", "a 'message' <b>"), unexpected("ThrowException", "InvalidOperationException: a 'message' <b>")) },
  { row: "A4 InvokeWithString, before its completion", run: on("/testhub", async (client) => {
    const got = [];
    client.on("Message", (text) => got.push(text));
    for (const text of ["one", "", null]) same(await client.invoke("InvokeWithString", text), null, "result");
    same(got, ["one", "", null]);
  }) },
  { row: "A4 SendCustomObject", run: on("/testhub", async (client, x) => {
    const got = [];
    client.on("CustomObject", (o) => got.push(o));
    await client.invoke("SendCustomObject", { Name: "test", Value: 42 });
    if (x.protocol === "json") await client.invoke("SendCustomObject", { name: "lower", vaLue: -1 });
    same(got, [{ Name: "test", Value: 42 }, ...(x.protocol === "json" ? [{ Name: "lower", Value: -1 }] : [])]);
  }) },
  { row: "A4 Stream", run: on("/testhub", async (client) => same(await collect(client.stream("Stream")), ["a", "b", "c"])) },
  { row: "A4 InfiniteStream is cancelled", run: on("/testhub", async (client) => {
    const told = called(client, "StreamCanceled");
    client.stream("InfiniteStream").subscribe({ next() {}, complete() {}, error() {} }).dispose();
    same(await told, []);
    await alive(client);
  }) },
  { row: "A4 InfiniteStream ends with its connection", run: on("/testhub", async (client, x) => {
    client.stream("InfiniteStream").subscribe({ next() {}, complete() {}, error() {} });
    await alive(client);
    await within(client.stop(), "stop");
    await alive(await x.connect("/testhub"));
  }) },
  { row: "A4 StreamingConcat", run: on("/testhub", async (client, x) => {
    same(await upload(x, client, "StreamingConcat", ["a", "", "✓", "d"]), "a✓d");
    same(await upload(x, client, "StreamingConcat", []), "");
    const many = Array.from({ length: 30 }, (_, i) => `${i},`);
    same(await upload(x, client, "StreamingConcat", many), many.join(""));
  }) },
  { row: "A4 EmptyStream", run: on("/testhub", async (client) => same(await collect(client.stream("EmptyStream")), [])) },
  { row: "A4 StreamThrowException", run: refuses("/testhub", (client) => collect(client.stream("StreamThrowException", "boom")), unexpected("StreamThrowException", "InvalidOperationException: boom")) },
  { row: "A4 GetActiveTransportName", run: on("/testhub", async (client, x) => same(await client.invoke("GetActiveTransportName"), x.transport)) },
  { row: "A4 EchoComplexObject", run: on("/testhub", async (client, x) => same(await client.invoke("EchoComplexObject", complex(x)), complex(x))) },
  { row: "A4 SendComplexObject", run: on("/testhub", async (client, x) => same(await client.invoke("SendComplexObject"), {
    String: "hello world", IntArray: [1, 2, 3], Guid: "00010203-0405-0607-0706-050403020100",
    ByteArray: x.protocol === "json" ? "AQID" : new Uint8Array([1, 2, 3]),
    DateTime: x.protocol === "json" ? "2000-01-01T00:00:00Z" : new Date("2000-01-01T00:00:00Z"),
  })) },
  { row: "A4 GetContentTypeHeader", run: on("/testhub", async (client) => {
    const type = await client.invoke("GetContentTypeHeader");
    holds(type === null || typeof type === "string", `type ${shown(type)}`);
  }) },
  { row: "A4 GetHeader", run: on("/testhub", async (client) => {
    holds(await client.invoke("GetHeader", "uSER-aGENT"), "no User-Agent");
    same(await client.invoke("GetHeader", "X-Missing"), null);
  }) },
  { row: "A4 GetHeader, the application's own", node: true, run: async (x) => {
    const client = await x.connect("/testhub", { headers: { "X-Own": "a, b", "Content-Type": "application/x-own" } });
    same(await client.invoke("GetHeader", "x-oWn"), "a, b");
    if (x.transport !== "LongPolling") same(await client.invoke("GetContentTypeHeader"), "application/x-own");
  } },
  { row: "A4 GetCookie", negotiated: true, run: on("/testhub", async (client) => {
    same(await client.invoke("GetCookie", "testCookie"), "testValue");
    same(await client.invoke("GetCookie", "testCookie2"), "testValue2");
    same(await client.invoke("GetCookie", "expiredCookie"), null);
  }) },
  { row: "A4 null and void results", run: on("/testhub", async (client) => {
    same(await client.invoke("InvokeWithString", "x"), null, "void");
    same(await client.invoke("Echo", null), null, "null");
  }) },
  { row: "A4 no completion without an id", run: on("/testhub", async (client) => {
    for (const [method, ...args] of [["ThrowException", "x"], ["Nothing"], ["Echo"], ["Stream"]]) await client.send(method, ...args);
    await alive(client);
  }) },
  { row: "A5 a token opens", run: async (x) => {
    const token = await x.token();
    same(await (await x.connect("/authorizedhub", { accessTokenFactory: () => token })).invoke("Echo", "in"), "in");
  } },
  { row: "A5 no token does not", run: async (x) => {
    const err = await fails(x.build("/authorizedhub").start());
    if (!x.skipNegotiation) holds(/401/.test(err.message), err.message);
  } },
  { row: "A5 a wrong token does not", run: async (x) => {
    const token = await x.token();
    await fails(x.build("/authorizedhub", { accessTokenFactory: () => `${token.slice(0, -6)}AAAAAA` }).start());
  } },
  { row: "A5 an open connection outlives its token", slow: true, run: async (x) => {
    const token = await x.token();
    const client = await x.connect("/authorizedhub", { accessTokenFactory: () => token });
    await delay(6000);
    await alive(client);
  } },
  { row: "A6 uncreatable", run: async (x) => {
    const client = x.build("/uncreatable");
    const end = closed(client); // unless start fails, which it does when the Close comes early
    end.catch(() => undefined);
    const failure = await within(client.start(), "start").then(() => end, (err) => err);
    same(failure?.message, `Server returned an error on close: Connection closed with an error. InvalidOperationException: ${uncreatableMessage}`);
  } },
  { row: "A6 uncreatable: no reconnect", negotiated: true, run: async (x) => {
    const client = x.build("/uncreatable", {}, (builder) => builder.withAutomaticReconnect([0, 0, 0]));
    const end = closed(client);
    let tried = false;
    client.onreconnecting(() => (tried = true));
    end.catch(() => undefined);
    await within(client.start(), "start").then(() => end, () => undefined);
    await delay(100);
    holds(!tried, "it reconnects");
  } },
  { row: "A8 client result", negotiated: true, run: on("/testhub", async (client, x) => {
    client.on("Result", () => 10);
    same(await x.get(`/clientresult/${client.connectionId}`), { status: 200, text: "10", type: "text/plain; charset=utf-8" });
  }) },
  { row: "A8 client result, the client's error", negotiated: true, run: on("/testhub", async (client, x) => {
    client.on("Result", () => { throw new Error("from the callback"); });
    same((await x.get(`/clientresult/${client.connectionId}`)).text, "Error: from the callback");
  }) },
  { row: "A8 client result, no such method", negotiated: true, run: on("/testhub", async (client, x) => {
    same(await x.get(`/clientresult/${client.connectionId}`), { status: 200, text: "Client didn't provide a result.", type: "text/plain; charset=utf-8" });
  }) },
  { row: "A8 client result, nobody there", negotiated: true, run: on("/testhub", async (client, x) => {
    const { status, text } = await x.get("/clientresult/nobody");
    holds(status === 200 && text !== "", `${status} ${text}`);
  }) },
  { row: "A8 client result, gone while asked", negotiated: true, run: on("/testhub", async (client, x) => {
    const asked = called(client, "Result");
    client.on("Result", () => new Promise(() => undefined));
    const answer = x.get(`/clientresult/${client.connectionId}`);
    await asked;
    await client.stop();
    const { status, text } = await answer;
    holds(status === 200 && text !== "", `${status} ${text}`);
  }) },
  { row: "A8 client result, calls go on meanwhile", negotiated: true, run: on("/testhub", async (client, x) => {
    let free;
    const asked = new Promise((resolve) => client.on("Result", () => {
      resolve();
      return new Promise((result) => (free = result));
    }));
    const answer = x.get(`/clientresult/${client.connectionId}`);
    await within(asked, "Result");
    await alive(client);
    free(-7);
    same((await answer).text, "-7");
  }) },
  { row: "A9 hub error", run: refuses("/testhub", (client, x) => upload(x, client, "StreamingConcat", ["a"], (s) => s.error(new Error("upload broke"))), unexpected("StreamingConcat", "HubException: upload broke")) },
  { row: "A9 stream fails after it began", run: refuses("/default", (client, x) => streamed(x, client, "StreamEcho", ["a"], (s) => s.error(new Error("upload broke"))), "An error occurred on the server while streaming results. HubException: upload broke") },
  { row: "A9 plain call of a stream", run: refuses("/testhub", (client) => client.invoke("sTREAM"), "The client attempted to invoke the streaming 'Stream' method with a non-streaming invocation.") },
  { row: "A9 stream call of a plain method", run: refuses("/testhub", (client) => collect(client.stream("Echo", "x")), "The client attempted to invoke the non-streaming 'Echo' method with a streaming invocation.") },
  { row: "A9 unknown method", run: on("/testhub", async (client) => {
    const text = failed("noSuchMETHOD", "HubException: Method does not exist.");
    await fails(client.invoke("noSuchMETHOD", 1), text);
    await fails(collect(client.stream("noSuchMETHOD")), text);
    await alive(client);
  }) },
  { row: "A9 wrong number of arguments", run: on("/testhub", async (client, x) => {
    await fails(client.invoke("Echo"), failed("Echo", counted(0, 1)));
    await fails(client.invoke("Echo", "a", "b"), failed("Echo", counted(2, 1)));
    await fails(collect(client.stream("Stream", 1)), failed("Stream", counted(1, 0)));
    await fails(client.invoke("StreamingConcat", x.subject(), "extra"), failed("StreamingConcat", counted(1, 0)));
    await alive(client);
  }) },
  { row: "A9 wrong type of argument", run: on("/testhub", async (client) => {
    await fails(client.invoke("Echo", [1]), failed("Echo", mismatch));
    await fails(client.invoke("SendCustomObject", "x"), failed("SendCustomObject", mismatch));
    await fails(collect(client.stream("StreamThrowException", 7)), failed("StreamThrowException", mismatch));
    await alive(client);
  }) },
  { row: "A10.8 order", run: on("/testhub", async (client) => {
    const got = [];
    client.on("Message", (text) => got.push(text));
    const sent = Array.from({ length: 50 }, (_, i) => `${i}`);
    for (const text of sent) client.send("InvokeWithString", text);
    await alive(client);
    same(got, sent);
  }) },
  { row: "A10.8 calls under way at once", run: on("/testhub", async (client) => {
    const sent = Array.from({ length: 50 }, (_, i) => `${i}`);
    same(await Promise.all(sent.map((text) => client.invoke("Echo", text))), sent);
  }) },
  { row: "A10.9 stop and start again", run: on("/testhub", async (client) => {
    for (let i = 0; i < 5; i++) {
      await within(client.stop(), "stop");
      await within(client.start(), "start");
      await alive(client);
    }
  }) },
  { row: "A10.10 idle for a few seconds", slow: true, run: on("/testhub", async (client) => {
    client.keepAliveIntervalInMilliseconds = 60_000;
    await delay(5000);
    await alive(client);
  }) },
];

const hubsB = ["/default", "/dynamic", "/hubT"];
const onEach = (run) => async (x) => {
  for (const hub of hubsB) {
    const client = await x.connect(hub);
    await run(client, x);
    await client.stop(); // browsers have few connections for event streams
  }
};
const numbers = (n) => Array.from({ length: n }, (_, i) => i);

/** @type {Case[]} */
const setB = [
  { row: "B1 HelloWorld", run: onEach(async (client) => same(await client.invoke("HelloWorld"), "Hello World!")) },
  { row: "B1 default-nowebsockets", negotiated: true, run: async (x) => {
    if (x.transport === "WebSockets") return void (await fails(x.build("/default-nowebsockets").start()));
    same(await (await x.connect("/default-nowebsockets")).invoke("HelloWorld"), "Hello World!");
  } },
  { row: "B1 Echo", run: onEach(async (client) => {
    for (const text of ["x", "", null]) same(await client.invoke("Echo", text), text);
  }) },
  { row: "B1 Stream", run: onEach(async (client) => same(await collect(client.stream("Stream", 5)), numbers(5))) },
  { row: "B1 Stream is cancelled", run: onEach(async (client) => {
    const first = new Promise((resolve, reject) => {
      const s = client.stream("Stream", 10_000).subscribe({ next: () => resolve(s), complete() {}, error: reject });
    });
    (await within(first, "an item")).dispose();
    await alive(client);
  }) },
  { row: "B1 StreamException", run: onEach(async (client) => {
    await fails(collect(client.stream("StreamException")), unexpected("StreamException", "InvalidOperationException: Error occurred while streaming."));
  }) },
  { row: "B1 StreamBroken", run: onEach(async (client) => {
    await fails(collect(client.stream("StreamBroken")), "The value returned by the streaming method 'StreamBroken' is not a ChannelReader<> or IAsyncEnumerable<>.");
    await alive(client);
  }) },
  { row: "B1 CallEcho", run: onEach(async (client) => {
    const got = called(client, "Echo");
    same(await client.invoke("CallEcho", "back"), null);
    same(await got, ["back"]);
  }) },
  { row: "B1 CallHandlerThatDoesntExist", run: onEach(async (client) => {
    await client.invoke("CallHandlerThatDoesntExist");
    await alive(client);
  }) },
  { row: "B1 GetCallerConnectionId", negotiated: true, run: onEach(async (client) => same(await client.invoke("GetCallerConnectionId"), client.connectionId)) },
  { row: "B1 StreamEcho", run: onEach(async (client, x) => same(await streamed(x, client, "StreamEcho", ["a", "b", ""]), ["a", "b", ""])) },
  { row: "B1 StreamEchoInt, StreamIAsyncConsumer", run: onEach(async (client, x) => {
    for (const method of ["StreamEchoInt", "StreamIAsyncConsumer"]) same(await streamed(x, client, method, numbers(15)), numbers(15));
  }) },
  { row: "B1 GetUserIdentifier", run: async (x) => {
    same(await (await x.connect("/default")).invoke("GetUserIdentifier"), null);
    const token = await x.token("Some-Body");
    same(await (await x.connect("/default", { accessTokenFactory: () => token })).invoke("GetUserIdentifier"), "Some-Body");
  } },
  { row: "B1 Super-Insecure-UserName, GetHeaderValues", node: true, run: async (x) => {
    const client = await x.connect("/default", { headers: { "Super-Insecure-UserName": "by-header", "X-One": "1" } });
    same(await client.invoke("GetUserIdentifier"), "by-header");
    same(await client.invoke("GetHeaderValues", ["x-one", "X-Missing", "Super-Insecure-UserName"]), ["1", null, "by-header"]);
  } },
  { row: "B2 GetCookieValue of fromNegotiate", negotiated: true, run: on("/default", async (client) => {
    same(await client.invoke("GetCookieValue", "fromNegotiate"), "a value");
    same(await client.invoke("GetCookieValue", "none"), null);
  }) },
  { row: "B1 GetIHttpConnectionFeatureProperties", run: on("/default", async (client, x) => {
    const [localPort, remotePort, local, remote] = await client.invoke("GetIHttpConnectionFeatureProperties");
    same([localPort, local, remote], [Number(new URL(x.base).port), "127.0.0.1", "127.0.0.1"]);
    holds(remotePort > 0, `remote port ${remotePort}`);
  }) },
  { row: "B1 GetActiveTransportName", run: on("/default", async (client, x) => same(await client.invoke("GetActiveTransportName"), x.transport)) },
  { row: "B1 GetHttpProtocol", run: on("/default", async (client, x) => {
    const browserHTTP2 = x.browser && x.secure && x.transport !== "WebSockets";
    same(await client.invoke("GetHttpProtocol"), browserHTTP2 ? "HTTP/2" : "HTTP/1.1");
  }) },
  { row: "B1 Abort", run: onEach(async (client) => {
    const end = closed(client);
    client.invoke("Abort").catch(() => undefined);
    same((await end)?.message, undefined, "error of onclose");
  }) },
  { row: "B1 wrong arguments", run: onEach(async (client) => {
    await fails(client.invoke("Echo"), failed("Echo", counted(0, 1)));
    await fails(client.invoke("HelloWorld", 1), failed("HelloWorld", counted(1, 0)));
    await fails(client.invoke("Echo", ["x"]), failed("Echo", mismatch));
    await fails(collect(client.stream("Stream", "word")), failed("Stream", mismatch));
    await fails(collect(client.stream("Stream")), failed("Stream", counted(0, 1)));
    await alive(client);
  }) },
  { row: "B2 authorizedhub2", run: async (x) => {
    const token = await x.token("x");
    await alive(await x.connect("/authorizedhub2", { accessTokenFactory: () => token }));
    await fails(x.build("/authorizedhub2").start());
  } },
  { row: "B2 negotiateProtocolVersion12", negotiated: true, run: async (x) => {
    const err = await fails(x.build("/negotiateProtocolVersion12").start());
    holds(err.message.includes("The client requested version '1', but the server does not support this version."), err.message);
  } },
  { row: "B2 negotiateProtocolVersionNegative", run: async (x) => alive(await x.connect("/negotiateProtocolVersionNegative")) },
  { row: "B2 version", run: async (x) => {
    if (x.protocol !== "json") {
      const err = await fails(x.build("/version").start());
      return holds(err.message.includes("The protocol 'messagepack' is not supported."), err.message);
    }
    const client = await x.connect("/version");
    const got = called(client, "NewProtocolMethodClient");
    await client.invoke("NewProtocolMethodServer");
    same(await got, []);
    await alive(client);
  } },
  { row: "B3 redirect with a token", negotiated: true, run: async (x) => {
    for (let i = 0; i < 2; i++) await alive(await x.connect("/redirect"));
  } },
];

/** Every case, in the order of the table. */
export const cases = [...setA, ...setB];

/** Whether a case is meant for this client. @param {Case} c @param {Client} x */
export const applies = (c, x) =>
  (!c.transports || c.transports.includes(x.transport)) && !(c.negotiated && x.skipNegotiation) && !(c.node && x.browser);

/** Runs a case and ends its clients. @returns {Promise<string | undefined>} what went wrong */
export async function attempt(c, x) {
  try {
    await c.run(x);
    return undefined;
  } catch (err) {
    return String(err?.message ?? err);
  } finally {
    await within(x.stop(), "stop").catch(() => undefined);
  }
}
