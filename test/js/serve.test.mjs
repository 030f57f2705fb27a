// One server on memory, spoken to by the official client in every combination
// of protocol and start.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { buildClient, connect, Inbox, patience, protocols, within } from "./lib/client.mjs";
import { startServer, switchboard } from "./lib/server.mjs";

let program;
let server;

before(async () => {
  program = await switchboard();
  server = await startServer(program.file);
});

after(async () => {
  await server?.stop();
  await program?.remove();
});

const unicode = 'ünïcödé ✓ 漢字 🚀 "quoted" \\ </script> \u0000\u001e\u2028';

/** Values that must come back as they were sent. */
const values = {
  "a string": "hello",
  "an empty string": "",
  "unicode and control characters": unicode,
  "20 KB": "0123456789abcdef".repeat(1280),
  zero: 0,
  "minus one": -1,
  "an integer of 41 bits": 2 ** 40,
  "the largest safe integer": Number.MAX_SAFE_INTEGER,
  "the smallest safe integer": Number.MIN_SAFE_INTEGER,
  "a fraction": 1.5,
  true: true,
  false: false,
  null: null,
  "an object": { a: 1, b: [null, false, 0, "", { c: -(2 ** 40) }], empty: {}, list: [] },
  "an array": [1, [2, [3, null]], "x"],
};

for (const protocol of protocols) {
  for (const skipNegotiation of [false, true]) {
    const options = { protocol, skipNegotiation };
    describe(`${protocol}, ${skipNegotiation ? "without negotiation" : "negotiated"}`, () => {
      test("Echo returns what it was given", async (t) => {
        const client = await connect(t, server.base, options);
        for (const [name, value] of Object.entries(values)) {
          assert.deepEqual(await client.invoke("Echo", value), value, name);
        }
      });

      test("Echo answers many calls under way at once, each with its own", async (t) => {
        const client = await connect(t, server.base, options);
        const numbers = Array.from({ length: 300 }, (_, i) => i);
        assert.deepEqual(await Promise.all(numbers.map((n) => client.invoke("Echo", n))), numbers);
      });

      test("WhoAmI tells who and where the caller is", async (t) => {
        const client = await connect(t, server.base, { ...options, userId: "alice" });
        const who = await client.invoke("WhoAmI");
        assert.equal(who.userId, "alice");
        assert.equal(who.protocol, protocol);
        assert.match(who.transport, /^WebSockets$/i);
        assert.ok(typeof who.instance === "string" && who.instance !== "");
        assert.ok(typeof who.connectionId === "string" && who.connectionId !== "");
        if (!skipNegotiation) assert.equal(who.connectionId, client.connectionId);
      });

      test("SendToGroup reaches the members until they leave", async (t) => {
        const [member, leaver, stranger] = await Promise.all([1, 2, 3].map(() => connect(t, server.base, options)));
        const [inMember, inLeaver, inStranger] = [member, leaver, stranger].map((client) => new Inbox(client, "Message"));
        const group = `room/${protocol}/${skipNegotiation}`;
        assert.equal(await member.invoke("JoinGroup", group), null);
        await leaver.invoke("JoinGroup", group);

        await stranger.invoke("SendToGroup", group, "Message", ["first", 1, null]);
        assert.deepEqual(await inMember.next(), ["first", 1, null]);
        assert.deepEqual(await inLeaver.next(), ["first", 1, null]);

        await leaver.invoke("LeaveGroup", group);
        await stranger.invoke("SendToGroup", group, "Message", ["second"]);
        assert.deepEqual(await inMember.next(), ["second"]);
        await Promise.all([leaver, stranger].map((client) => client.invoke("Echo", 0)));
        assert.deepEqual([inLeaver.waiting, inStranger.waiting], [[], []]);
      });

      test("joining twice delivers once", async (t) => {
        const client = await connect(t, server.base, options);
        const inbox = new Inbox(client, "Message");
        const group = `twice/${protocol}/${skipNegotiation}`;
        await client.invoke("JoinGroup", group);
        await client.invoke("JoinGroup", group);
        await client.invoke("SendToGroup", group, "Message", [1]);
        await client.invoke("SendToGroup", group, "Message", [2]);
        assert.deepEqual(await inbox.take(2), [[1], [2]]);
      });

      test("SendToUser reaches all connections of that user and nobody else", async (t) => {
        const userId = `user-${protocol}-${skipNegotiation}`;
        const [one, two, other] = await Promise.all([userId, userId, "somebody"].map((id) => connect(t, server.base, { ...options, userId: id })));
        const [inOne, inTwo, inOther] = [one, two, other].map((client) => new Inbox(client, "Message"));
        await other.invoke("SendToUser", userId, "Message", ["for you"]);
        assert.deepEqual([await inOne.next(), await inTwo.next()], [["for you"], ["for you"]]);
        await other.invoke("Echo", 0);
        assert.deepEqual(inOther.waiting, []);
      });

      test("SendToAll reaches everyone, the caller too", async (t) => {
        const clients = await Promise.all([1, 2, 3].map(() => connect(t, server.base, options)));
        const inboxes = clients.map((client) => new Inbox(client, "ToAll"));
        await clients[0].invoke("SendToAll", "ToAll", [unicode]);
        for (const inbox of inboxes) assert.deepEqual(await inbox.next(), [unicode]);
      });

      test("arguments without content arrive as they are", async (t) => {
        const client = await connect(t, server.base, options);
        const inbox = new Inbox(client, "Empty");
        await client.invoke("JoinGroup", "empty");
        for (const args of [[], [null], [null, false, 0, ""], [[], {}], [[null], { a: null }]]) {
          await client.invoke("SendToGroup", "empty", "Empty", args);
          assert.deepEqual(await inbox.next(), args);
        }
        await client.invoke("LeaveGroup", "empty");
      });

      test("a wrong call fails alone, in the words of SignalR", async (t) => {
        const client = await connect(t, server.base, options);
        await assert.rejects(client.invoke("Nothing"), { message: "Failed to invoke 'Nothing' due to an error on the server. HubException: Method does not exist." });
        await assert.rejects(client.invoke("Echo"), { message: "Failed to invoke 'Echo' due to an error on the server." });
        await assert.rejects(client.invoke("Echo", 1, 2), { message: "Failed to invoke 'Echo' due to an error on the server." });
        await assert.rejects(client.invoke("JoinGroup", 7), { message: "Failed to invoke 'JoinGroup' due to an error on the server." });
        await assert.rejects(client.invoke("JoinGroup", "a\nb"), Error);
        assert.equal(await client.invoke("Echo", "still here"), "still here");
      });

      test("calls without an answer are carried out in order", async (t) => {
        const client = await connect(t, server.base, options);
        const inbox = new Inbox(client, "Sent");
        const group = `sent/${protocol}/${skipNegotiation}`;
        await client.send("JoinGroup", group);
        for (let i = 0; i < 100; i++) await client.send("SendToGroup", group, "Sent", [i]);
        assert.deepEqual((await inbox.take(100)).flat(), Array.from({ length: 100 }, (_, i) => i));
      });
    });
  }
}

describe("between protocols", () => {
  const integers = [2 ** 40, -1, 0, 127, 128, -(2 ** 40), { deep: [2 ** 40, { deeper: -1 }] }];

  test("integers of a JSON sender are integers in MessagePack", async (t) => {
    const received = [];
    const sender = await connect(t, server.base, { protocol: "json" });
    const receiver = await connect(t, server.base, { protocol: "messagepack", tap: (bytes) => received.push(Buffer.from(bytes)) });
    const inbox = new Inbox(receiver, "Integers");
    await receiver.invoke("JoinGroup", "integers/messagepack");
    await sender.invoke("SendToGroup", "integers/messagepack", "Integers", integers);
    assert.deepEqual(await inbox.next(), integers);

    const bytes = received.find((chunk) => chunk.includes("Integers"));
    const positive = Buffer.from("0000010000000000", "hex"); // 2^40 as 64-bit integer, behind cf (unsigned) or d3 (signed)
    const at = bytes.indexOf(positive);
    assert.ok(at > 0 && [0xcf, 0xd3].includes(bytes[at - 1]), bytes.toString("hex"));
    const arguments_ = bytes.subarray(bytes.indexOf("Integers") + "Integers".length);
    for (const float of [0xca, 0xcb]) assert.ok(!arguments_.includes(float), `float in ${arguments_.toString("hex")}`);
  });

  test("integers of a MessagePack sender are integers in JSON", async (t) => {
    const received = [];
    const sender = await connect(t, server.base, { protocol: "messagepack" });
    const receiver = await connect(t, server.base, { protocol: "json", tap: (text) => received.push(text) });
    const inbox = new Inbox(receiver, "Integers");
    await receiver.invoke("JoinGroup", "integers/json");
    await sender.invoke("SendToGroup", "integers/json", "Integers", integers);
    assert.deepEqual(await inbox.next(), integers);

    const text = received.find((chunk) => chunk.includes('"Integers"'));
    assert.ok(text.includes("[1099511627776,-1,0,127,128,-1099511627776,"), text);
  });

  for (const [from, to] of [["json", "messagepack"], ["messagepack", "json"]]) {
    test(`every value survives the way from ${from} to ${to}`, async (t) => {
      const sender = await connect(t, server.base, { protocol: from });
      const receiver = await connect(t, server.base, { protocol: to });
      const inbox = new Inbox(receiver, "Value");
      await receiver.invoke("JoinGroup", `values/${to}`);
      for (const [name, value] of Object.entries(values)) {
        await sender.invoke("SendToGroup", `values/${to}`, "Value", [value]);
        assert.deepEqual(await inbox.next(), [value], name);
      }
    });
  }
});

describe("a server that goes and comes back", () => {
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    for (const protocol of protocols) {
      test(`${protocol}: withAutomaticReconnect returns after ${signal}`, async (t) => {
        let own = await startServer(program.file);
        t.after(() => own.stop("SIGKILL"));
        const client = buildClient(own.base, { protocol, userId: "alice", reconnect: [0, ...Array(200).fill(100)] });
        t.after(() => client.stop());
        const reconnecting = new Promise((resolve) => client.onreconnecting(resolve));
        const reconnected = new Promise((resolve) => client.onreconnected(resolve));
        const closed = new Promise((resolve) => client.onclose(resolve));
        await client.start();
        const before_ = client.connectionId;

        const end = await own.stop(signal);
        if (signal === "SIGTERM") assert.deepEqual(end, { code: 0, signal: null });
        const gaveUp = closed.then((err) => Promise.reject(new Error("the client gave up", { cause: err })));
        gaveUp.catch(() => undefined);
        await within(Promise.race([reconnecting, gaveUp]), "reconnecting");

        own = await startServer(program.file, { port: own.port });
        await within(Promise.race([reconnected, gaveUp]), "reconnected", 2 * patience);
        assert.notEqual(client.connectionId, before_);
        assert.equal((await client.invoke("WhoAmI")).userId, "alice");
      });
    }
  }
});
