// Stateful reconnect on /default, through a proxy that cuts links.

import { closed, delay, holds, same, within } from "./conformance-cases.mjs";
import { negotiate, Proxy, record, records, Socket } from "./raw.mjs";

const stateful = (bufferSize) => (builder) => builder.withStatefulReconnect(bufferSize ? { bufferSize } : undefined).withAutomaticReconnect([0, 0]);

/** Runs with a client behind a proxy, and sees that it never reconnects. */
const behindProxy = (run, bufferSize) => async (x) => {
  const proxy = await Proxy.to(x.base);
  try {
    x.base = proxy.base;
    const client = x.build("/default", {}, stateful(bufferSize));
    const events = [];
    client.onreconnecting(() => events.push("reconnecting"));
    client.onreconnected(() => events.push("reconnected"));
    await within(client.start(), "start");
    await run(client, proxy, x);
    same(events, [], "events");
  } finally {
    proxy.close();
  }
};

const numbers = (n) => Array.from({ length: n }, (_, i) => i);

/** Collects a stream and cuts the link whenever it has brought some items: a client gives up when it is cut while it comes back. */
const cutting = (proxy, stream) => within(new Promise((resolve, reject) => {
  const items = [];
  stream.subscribe({
    next: (item) => items.push(item) % 12 === 6 && proxy.cut(),
    complete: () => resolve(items),
    error: reject,
  });
}), "end of the stream");

/** Cases for WebSockets, as in conformance-cases.mjs. */
export const resumes = [
  { row: "B4 a cut link is resumed", run: behindProxy(async (client, proxy) => {
    const id = client.connectionId;
    for (let i = 0; i < 3; i++) {
      const taken = proxy.taken;
      proxy.cut();
      same(await within(client.invoke("GetCallerConnectionId"), "answer"), id);
      holds(proxy.taken > taken, "no new link");
    }
    same(client.connectionId, id);
  }) },
  { row: "B4 calls and messages arrive once, in order", run: behindProxy(async (client, proxy) => {
    const got = [];
    client.on("Echo", (text) => got.push(text));
    for (let round = 0; round < 4; round++) {
      const results = numbers(25).map((i) => within(client.invoke("CallEcho", `${25 * round + i}`), "result"));
      await results[5]; // some are answered, some under way, some not sent
      proxy.cut();
      await Promise.all(results);
    }
    same(got, numbers(100).map(String));
  }) },
  { row: "B4 a stream goes on", run: behindProxy(async (client, proxy) => {
    same(await cutting(proxy, client.stream("Stream", 40)), numbers(40));
  }) },
  { row: "B4 an upload goes on", run: behindProxy(async (client, proxy, x) => {
    const subject = x.subject();
    const items = cutting(proxy, client.stream("StreamEchoInt", subject));
    for (const i of numbers(60)) {
      subject.next(i);
      if (i % 10 === 0) await delay(10);
    }
    subject.complete();
    same(await items, numbers(60));
  }) },
  { row: "B4 a client with a small buffer", run: behindProxy(async (client) => {
    const begun = Date.now();
    for (let i = 0; i < 6; i++) await within(client.send("Echo", "x".repeat(200)), "room in the buffer", 5000);
    same(await client.invoke("Echo", "x"), "x");
    holds(Date.now() - begun < 10_000, `${Date.now() - begun} ms`);
  }, 500) },
  { row: "B4 Abort is an orderly end", run: behindProxy(async (client) => {
    const end = closed(client);
    client.invoke("Abort").catch(() => undefined);
    same((await end)?.message, undefined);
  }) },
];

/** A stateful socket of one's own, dropped or closed. */
async function lose(base, version, goodbye) {
  const { connectionToken } = await negotiate(base, "/default", "negotiateVersion=1&useStatefulReconnect=true");
  const url = `${base}/default?id=${connectionToken}`;
  const socket = await Socket.open(url, "json", version);
  socket.send(record({ type: 1, invocationId: "1", target: "Echo", arguments: ["x"] }));
  same((await socket.record()).result, "x");
  if (goodbye) {
    socket.send(goodbye);
    await within(socket.closed, "close");
  } else {
    socket.drop();
  }
  return url;
}

/** The status that a socket on the url gets when nothing changes any more. */
async function settles(url, want) {
  let status;
  for (let i = 0; i < 50; i++) {
    const socket = new Socket(url);
    status = await within(socket.status, "upgrade");
    socket.drop();
    if (status === want) return;
    holds(status !== 101, "let in");
    await delay(50);
  }
  same(status, want);
}

/** Rows below the client, as in conformance-wire.mjs. */
export const resumesBelow = [
  { row: "B4 handshake version 1: a lost socket ends the connection", run: async (base) => settles(await lose(base, 1), 404) },
  { row: "B4 a Close ends the connection", run: async (base) => settles(await lose(base, 2, record({ type: 7 })), 404) },
  { row: "B4 the server's Sequence comes first", run: async (base) => {
    const socket = new Socket(await lose(base, 2));
    same(await within(socket.status, "upgrade"), 101);
    const [first, ...rest] = records((await socket.next()).text);
    same(first, { type: 9, sequenceId: 1 });
    const again = rest.find(({ type }) => type === 3) ?? (await socket.record());
    same(again.result, "x", "what was not acknowledged");
    socket.send(record({ type: 9, sequenceId: 2 }) + record({ type: 1, invocationId: "2", target: "Echo", arguments: ["y"] }));
    same((await socket.record()).result, "y");
    socket.send(record({ type: 9, sequenceId: 7 }));
    const close = await socket.record();
    same([close.type, Boolean(close.error)], [7, true], "a sequence of the future");
  } },
];

export const resumesSlow = [
  { row: "B4 nobody comes back", run: async (base) => {
    const url = await lose(base, 2);
    await delay(20_000);
    await settles(url, 404);
  } },
];

