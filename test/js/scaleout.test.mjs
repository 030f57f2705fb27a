// Two servers on one Redis: the receiver is on the first, the sender on the second.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { connect, Inbox, protocols } from "./lib/client.mjs";
import { startRedis, startServer, switchboard } from "./lib/server.mjs";

let program;
let redis;
let first;
let second;

// One after the other: what was started before a failure is known and stopped.
before(async () => {
  program = await switchboard();
  redis = await startRedis();
  first = await startServer(program.file, { redis: redis.url, instance: "first" });
  second = await startServer(program.file, { redis: redis.url, instance: "second" });
});

after(async () => {
  await Promise.allSettled([first?.stop(), second?.stop()]);
  await redis?.stop();
  await program?.remove();
});

test("the two servers are two instances", async (t) => {
  const [one, two] = await Promise.all([first, second].map((server) => connect(t, server.base)));
  const [who, other] = await Promise.all([one.invoke("WhoAmI"), two.invoke("WhoAmI")]);
  assert.match(who.instance, /^first/);
  assert.match(other.instance, /^second/);
});

for (const from of protocols) {
  for (const to of protocols) {
    describe(`${from} on the second instance to ${to} on the first`, () => {
      const name = `${from}-${to}`;
      const args = ["héllo ✓ 漢字 🚀", 2 ** 40, -1, null, false, 0, "", 1.5, { nested: [1, { deep: null }] }];

      /** A sender on the second instance; receivers with an inbox, one there, one on the first. */
      async function pair(t, target, options = {}) {
        const sender = await connect(t, second.base, { protocol: from });
        const far = await connect(t, first.base, { protocol: to, ...options });
        const near = await connect(t, second.base, { protocol: to, ...options });
        return { sender, far, near, inFar: new Inbox(far, target), inNear: new Inbox(near, target) };
      }

      test("a message to a group arrives", async (t) => {
        const { sender, far, near, inFar, inNear } = await pair(t, "Group");
        await Promise.all([far, near].map((client) => client.invoke("JoinGroup", name)));
        await sender.invoke("SendToGroup", name, "Group", args);
        assert.deepEqual(await inFar.next(), args);
        assert.deepEqual(await inNear.next(), args);
      });

      test("a message to a user arrives", async (t) => {
        const { sender, inFar, inNear } = await pair(t, "User", { userId: `user-${name}` });
        await sender.invoke("SendToUser", `user-${name}`, "User", args);
        assert.deepEqual(await inFar.next(), args);
        assert.deepEqual(await inNear.next(), args);
      });

      test("a message to all arrives", async (t) => {
        const { sender, inFar, inNear } = await pair(t, "All");
        await sender.invoke("SendToAll", "All", args);
        assert.deepEqual(await inFar.next(), args);
        assert.deepEqual(await inNear.next(), args);
      });
    });
  }
}

describe("joining is a fence", () => {
  const rounds = 200;

  test(`what the other instance sends right after a join arrives, ${rounds} times`, async (t) => {
    const receiver = await connect(t, first.base, { protocol: "messagepack" });
    const sender = await connect(t, second.base);
    const inbox = new Inbox(receiver, "Fence");
    for (let i = 0; i < rounds; i++) {
      await receiver.invoke("JoinGroup", `fence/${i}`);
      await sender.invoke("SendToGroup", `fence/${i}`, "Fence", [i]);
      assert.deepEqual(await inbox.next(), [i]);
    }
  });

  test(`what the other instance sends right after a leave does not, ${rounds} times`, async (t) => {
    const receiver = await connect(t, first.base);
    const sender = await connect(t, second.base, { protocol: "messagepack" });
    const inbox = new Inbox(receiver, "Left");
    const end = new Inbox(receiver, "End");
    await receiver.invoke("JoinGroup", "left/end");
    for (let i = 0; i < rounds; i++) {
      await receiver.invoke("JoinGroup", `left/${i}`);
      await receiver.invoke("LeaveGroup", `left/${i}`);
      await sender.invoke("SendToGroup", `left/${i}`, "Left", [i]);
    }
    await sender.invoke("SendToGroup", "left/end", "End", []);
    await end.next();
    assert.deepEqual(inbox.waiting, []);
  });
});

describe("order", () => {
  const numbers = (n) => Array.from({ length: n }, (_, i) => i);

  test("2,000 messages of one sender arrive in their order, everywhere", async (t) => {
    const sender = await connect(t, second.base);
    const receivers = await Promise.all([
      connect(t, first.base, { protocol: "json" }),
      connect(t, first.base, { protocol: "messagepack" }),
      connect(t, second.base, { protocol: "json" }),
    ]);
    const inboxes = receivers.map((client) => new Inbox(client, "Ordered"));
    await Promise.all(receivers.map((client) => client.invoke("JoinGroup", "ordered")));
    for (const i of numbers(2000)) await sender.send("SendToGroup", "ordered", "Ordered", [i]);
    for (const inbox of inboxes) assert.deepEqual((await inbox.take(2000)).flat(), numbers(2000));
  });

  test("all members see the messages of two senders in one order", async (t) => {
    const each = 500;
    const senders = await Promise.all([connect(t, first.base), connect(t, second.base, { protocol: "messagepack" })]);
    const receivers = await Promise.all([
      connect(t, first.base),
      connect(t, second.base),
      connect(t, second.base, { protocol: "messagepack" }),
    ]);
    const inboxes = receivers.map((client) => new Inbox(client, "Mixed"));
    await Promise.all(receivers.map((client) => client.invoke("JoinGroup", "mixed")));
    await Promise.all(
      senders.map(async (sender, from) => {
        for (const i of numbers(each)) await sender.send("SendToGroup", "mixed", "Mixed", [from, i]);
      }),
    );
    const seen = await Promise.all(inboxes.map((inbox) => inbox.take(2 * each)));
    assert.deepEqual(seen[1], seen[0]);
    assert.deepEqual(seen[2], seen[0]);
    for (const from of [0, 1]) assert.deepEqual(seen[0].filter(([sender]) => sender === from).map(([, i]) => i), numbers(each));
  });
});
