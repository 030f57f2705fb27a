// A load balancer without sticky sessions, and a link that breaks all the time.

import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";

/**
 * Picks one of the ports at random for every request, as if it remembered
 * nothing. A port that refuses the connection is passed over; a request that may
 * have reached one is never sent to another.
 * @param {number[]} ports
 * @returns {Promise<{base: string, port: number, requests: () => number, stop: () => Promise<void>}>}
 */
export async function startBalancer(ports) {
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 64 });
  const sockets = new Set();
  let requests = 0;
  const shuffled = () => ports.map((port) => ({ port, rank: Math.random() })).sort((a, b) => a.rank - b.rank).map(({ port }) => port);

  const server = createServer((incoming, outgoing) => {
    requests++;
    const chunks = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => pass(incoming, Buffer.concat(chunks), outgoing, shuffled()));
  });

  /** Sends a whole request to the first of the ports that takes it. */
  function pass(incoming, body, outgoing, [port, ...others]) {
    const { host, ...rest } = incoming.headers;
    const onward = request({ agent, port, host: "127.0.0.1", method: incoming.method, path: incoming.url, headers: { ...rest, host } }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
      answer.on("error", () => outgoing.destroy());
      outgoing.on("close", () => answer.destroy());
    });
    outgoing.on("close", () => outgoing.writableFinished || onward.destroy());
    onward.on("error", (err) => {
      if (outgoing.headersSent || outgoing.destroyed) outgoing.destroy();
      else if (err.code === "ECONNREFUSED" && others.length > 0) pass(incoming, body, outgoing, others);
      else if (err.code === "ECONNRESET" && onward.reusedSocket && others.length > 0 && body.length === 0) pass(incoming, body, outgoing, [port, ...others]);
      else outgoing.writeHead(502).end();
    });
    onward.end(body);
  }

  server.on("upgrade", (incoming, socket, head) => {
    requests++;
    tunnel(incoming, socket, head, shuffled());
  });

  function tunnel(incoming, socket, head, [port, ...others]) {
    const onward = connect(port, "127.0.0.1", () => {
      const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
      for (let i = 0; i < incoming.rawHeaders.length; i += 2) lines.push(`${incoming.rawHeaders[i]}: ${incoming.rawHeaders[i + 1]}`);
      onward.write(`${lines.join("\r\n")}\r\n\r\n`);
      onward.write(head);
      onward.pipe(socket);
      socket.pipe(onward);
    });
    sockets.add(onward);
    onward.on("close", () => sockets.delete(onward));
    onward.on("error", (err) => (err.code === "ECONNREFUSED" && others.length > 0 ? tunnel(incoming, socket, head, others) : socket.destroy()));
    socket.on("error", () => onward.destroy());
    socket.on("close", () => onward.destroy());
  }

  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    base: `http://127.0.0.1:${port}`,
    port,
    requests: () => requests,
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      agent.destroy();
      await once(server, "close");
    },
  };
}

/**
 * Passes connections on to a port and breaks each WebSocket some time after it
 * was opened, without a close frame.
 * @param {number} to
 * @param {number} life milliseconds of a link
 * @returns {Promise<{base: string, cuts: () => number, heal: () => void, stop: () => Promise<void>}>}
 */
export async function startBreakingLink(to, life) {
  const sockets = new Set();
  let cuts = 0;
  let healed = false;
  const server = createTcpServer((near) => {
    const far = connect(to, "127.0.0.1");
    let timer;
    near.once("data", (first) => {
      if (/^upgrade: *websocket/im.test(first.toString("latin1"))) {
        timer = setTimeout(() => {
          if (healed) return;
          cuts++;
          near.resetAndDestroy();
          far.resetAndDestroy();
        }, life);
      }
      far.write(first);
      near.pipe(far);
    });
    far.pipe(near);
    for (const [one, other] of [[near, far], [far, near]]) {
      sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        clearTimeout(timer);
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    base: `http://127.0.0.1:${port}`,
    cuts: () => cuts,
    heal: () => (healed = true),
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, "close");
    },
  };
}
