// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Feed, startFeed } from "./feed";
import type { Told } from "./protocol";

type Connection = { headers: Headers; say: (text: string) => void; end: () => void };

let connections: Connection[];
let refuse: number | null;
let told: Told[];
let feed: Feed;

beforeEach(() => {
  vi.useFakeTimers();
  connections = [];
  refuse = null;
  told = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    if (refuse !== null) {
      if (refuse === 0) throw new TypeError("connection refused");
      return new Response("", { status: refuse });
    }
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
    init.signal?.addEventListener("abort", () => controller.error(new DOMException("aborted", "AbortError")));
    connections.push({
      headers: new Headers(init.headers),
      say: (text) => controller.enqueue(new TextEncoder().encode(text)),
      end: () => controller.close(),
    });
    return new Response(body);
  });
  feed = startFeed("lt_x", (one) => told.push(one));
});

afterEach(() => {
  feed.stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const event = (n: number) => `id: ${n}\nevent: event\ndata: {"seq":${n}}\n\n`;
const heard = () => told.flatMap((one) => (one.kind === "events" ? one.events.map(({ seq }) => seq) : []));
const last = () => connections.at(-1) as Connection;

test("a broken connection goes on behind the last event that was heard", async () => {
  await settle();
  expect(last().headers.get("Authorization")).toBe("Bearer lt_x");
  expect(last().headers.get("Last-Event-ID")).toBeNull();
  last().say(`id: 3\nevent: snapshot\ndata: {"tasks":[]}\n\n${event(4)}${event(5)}`);
  await settle();
  last().end();
  await settle(1_000);
  expect(last().headers.get("Last-Event-ID")).toBe("5");
  last().say(event(6));
  await settle();
  expect(heard()).toEqual([4, 5, 6]);
  expect(told.filter((one) => one.kind === "fresh")).toHaveLength(1);
});

test("while the server is away the feed says so, and tries again by itself", async () => {
  await settle();
  expect(feed.state().word).toBe("live");
  refuse = 0;
  last().end();
  await settle();
  expect(feed.state().word).toBe("lost");
  await settle(60_000);
  expect(feed.state().word).toBe("lost");
  refuse = null;
  await settle(5_000);
  expect(feed.state().word).toBe("live");
});

test("a connection that has fallen silent is made anew", async () => {
  await settle();
  last().say(event(1));
  await settle(30_000);
  last().say(": beat\n\n");
  await settle(30_000);
  expect(connections).toHaveLength(1);
  await settle(11_000);
  expect(connections).toHaveLength(2);
  expect(last().headers.get("Last-Event-ID")).toBe("1");
});

test("whoever looks after a sleep does not wait for the silence to be noticed", async () => {
  await settle();
  await settle(20_000);
  feed.look();
  await settle(1_000);
  expect(connections).toHaveLength(2);
});

test("a server that renews the stream says where to go on", async () => {
  await settle();
  last().say('event: closed\ndata: {"reason":"renew","after":"9"}\n\n');
  await settle();
  expect(last().headers.get("Last-Event-ID")).toBe("9");
  expect(feed.state().word).toBe("live");
});

test("a mark of another database is forgotten", async () => {
  await settle();
  last().say(event(7));
  await settle();
  refuse = 400;
  last().end();
  await settle(300);
  refuse = null;
  await settle(1_000);
  expect(last().headers.get("Last-Event-ID")).toBeNull();
});

test("a token that is not good is told, not tried in a hurry", async () => {
  await settle();
  refuse = 401;
  last().end();
  await settle(1_000);
  expect(feed.state().word).toBe("denied");
});
