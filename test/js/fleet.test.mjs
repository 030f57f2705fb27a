// Three instances on one Redis behind a balancer that remembers nothing: every
// request of every transport may arrive anywhere.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { env } from "node:process";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";

import { startBalancer, startBreakingLink } from "./lib/balancer.mjs";
import { Inbox } from "./lib/client.mjs";
import { startRedis, startServer, switchboard } from "./lib/server.mjs";

const require = createRequire(import.meta.url);
const signalR = require("@microsoft/signalr");
const { MessagePackHubProtocol } = require("@microsoft/signalr-protocol-msgpack");
const { HttpTransportType } = signalR;

/** The full size when SWITCHBOARD_LONG is set. */
const size = (normal, full) => (env.SWITCHBOARD_LONG ? full : normal);

const ways = [
  { name: "WebSockets, json", transport: HttpTransportType.WebSockets },
  { name: "WebSockets, messagepack", transport: HttpTransportType.WebSockets, binary: true },
  { name: "ServerSentEvents, json", transport: HttpTransportType.ServerSentEvents },
  { name: "LongPolling, json", transport: HttpTransportType.LongPolling },
  { name: "LongPolling, messagepack", transport: HttpTransportType.LongPolling, binary: true },
];

/** @param {string} base */
function build(base, { transport, binary = false, stateful = false, reconnect = undefined }) {
  const builder = new signalR.HubConnectionBuilder()
    .withUrl(`${base}/hub`, { transport })
    .withHubProtocol(binary ? new MessagePackHubProtocol() : new signalR.JsonHubProtocol())
    .configureLogging(signalR.LogLevel.None);
  if (stateful) builder.withStatefulReconnect();
  if (reconnect) builder.withAutomaticReconnect(reconnect);
  return builder.build();
}

describe("three instances behind a balancer that picks at random", { timeout: size(120_000, 3_600_000) }, () => {
  let program, redis, instances, balancer;

  before(async () => {
    [program, redis] = await Promise.all([switchboard(), startRedis()]);
    instances = await Promise.all(["a", "b", "c"].map((instance) => startServer(program.file, { redis: redis.url, instance })));
    balancer = await startBalancer(instances.map(({ port }) => port));
  });

  after(async () => {
    await balancer?.stop();
    await Promise.all((instances ?? []).map((instance) => instance.stop()));
    await redis?.stop();
    await program?.remove();
  });

  for (const way of ways) {
    test(`connects at the first try, every time: ${way.name}`, async () => {
      const connects = size(40, 10_000);
      const atOnce = 20;
      const failures = [];
      let next = 0;
      const connectOnce = async () => {
        while (next < connects) {
          const number = next++;
          const client = build(balancer.base, way);
          try {
            await client.start();
            assert.equal(await client.invoke("Echo", number), number);
          } catch (err) {
            failures.push(`${number}: ${err}`);
          } finally {
            await client.stop();
          }
        }
      };
      await Promise.all(Array.from({ length: atOnce }, connectOnce));
      assert.deepEqual(failures, []);
    });

    test(`keeps the order of one connection's sends: ${way.name}`, async (t) => {
      const messages = size(300, 5000);
      const client = build(balancer.base, way);
      t.after(() => client.stop());
      const inbox = new Inbox(client, "m");
      await client.start();
      const group = `order ${way.name}`;
      await client.invoke("JoinGroup", group);
      const sends = Array.from({ length: messages }, (_, i) => client.send("SendToGroup", group, "m", [i]));
      await Promise.all(sends);
      const got = (await inbox.take(messages)).map(([i]) => i);
      assert.deepEqual(got, Array.from({ length: messages }, (_, i) => i));
    });
  }

  test("stateful reconnects: every message once and in order over links that break all the time", async (t) => {
    const messages = size(1500, 10_000);
    const link = await startBreakingLink(balancer.port, 200);
    t.after(() => link.stop());
    for (const binary of [false, true]) {
      const client = build(link.base, { transport: HttpTransportType.WebSockets, binary, stateful: true });
      const closed = [];
      client.onclose((err) => closed.push(err));
      const group = `stateful ${binary}`;
      const own = new Inbox(client, "own");
      const others = new Inbox(client, "others");
      await client.start();
      const { connectionId } = client;
      await client.invoke("JoinGroup", group);

      const elsewhere = build(instances[1].base, { transport: HttpTransportType.WebSockets });
      t.after(() => elsewhere.stop());
      await elsewhere.start();
      const before = link.cuts();
      const sending = (async () => {
        for (let i = 0; i < messages; i += 50) {
          for (let k = i; k < i + 50; k++) elsewhere.send("SendToGroup", group, "others", [k]);
          await delay(20);
        }
      })();
      for (let i = 0; i < messages; i += 50) {
        for (let k = i; k < i + 50; k++) client.send("SendToGroup", group, "own", [k]).catch(() => undefined);
        await delay(20);
      }
      await sending;
      const want = Array.from({ length: messages }, (_, i) => i);
      const arrived = async (inbox) => {
        for (let waited = 0; inbox.waiting.length < messages && closed.length === 0 && waited < 60_000; waited += 50) await delay(50);
        return inbox.waiting.map(([i]) => i);
      };
      assert.deepEqual(await arrived(others), want, "messages from the other instance");
      assert.deepEqual(await arrived(own), want, "messages of its own");
      assert.deepEqual(closed, []);
      assert.equal(client.connectionId, connectionId);
      assert.ok(link.cuts() - before >= 3, `the link broke only ${link.cuts() - before} times`);
      await client.stop();
    }
  });

  test("an instance that is killed: its clients are back by their own rules", async (t) => {
    const each = size(4, 40);
    const clients = [];
    for (const way of ways) {
      for (let i = 0; i < each; i++) {
        const client = build(balancer.base, { ...way, reconnect: [0, 100, 300, 1000, 1000, 1000, 1000] });
        t.after(() => client.stop());
        client.serverTimeoutInMilliseconds = 30_000;
        const inbox = new Inbox(client, "m");
        client.onreconnected(() => client.invoke("JoinGroup", "killed"));
        await client.start();
        await client.invoke("JoinGroup", "killed");
        clients.push({ client, inbox, way });
      }
    }
    const victim = instances[2];
    await victim.stop("SIGKILL");
    instances.splice(2, 1);
    const sender = build(instances[0].base, { transport: HttpTransportType.WebSockets });
    t.after(() => sender.stop());
    await sender.start();
    // Whoever has lost its instance comes back; nobody else notices.
    let missing = clients;
    for (let round = 0; round < 200 && missing.length > 0; round++) {
      await sender.invoke("SendToGroup", "killed", "m", [round]);
      await delay(100);
      missing = clients.filter(({ inbox }) => !inbox.waiting.some(([n]) => n >= Math.max(0, round - 3)));
    }
    assert.deepEqual(missing.map(({ way, client }) => `${way.name}: ${client.state}`), []);
  });
});
