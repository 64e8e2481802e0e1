/** The shared worker: one connection to the server for all tabs of a browser, which allows six in all. */
import { type Feed, startFeed } from "./feed";
import type { Said, Told } from "./protocol";

type Scope = { onconnect: ((event: MessageEvent) => void) | null };

const ports = new Set<MessagePort>();
let feed: Feed | null = null;
let token: string | null = null;

function tellAll(told: Told): void {
  for (const port of ports) port.postMessage(told);
}

function greet(port: MessagePort, given: string | null): void {
  ports.add(port);
  if (feed === null || given !== token) {
    feed?.stop();
    token = given;
    feed = startFeed(token, tellAll);
  }
  const state = feed.state();
  port.postMessage({ kind: "state", state } satisfies Told);
  if (state.word === "live") port.postMessage({ kind: "fresh" } satisfies Told); // what it has asked before it came here
}

function leave(port: MessagePort): void {
  ports.delete(port);
  if (ports.size > 0) return;
  feed?.stop();
  feed = null;
}

(globalThis as unknown as Scope).onconnect = (event) => {
  const port = event.ports[0];
  if (port === undefined) return;
  port.onmessage = ({ data }: MessageEvent<Said>) => {
    if (data.kind === "hello") greet(port, data.token);
    else if (data.kind === "look") feed?.look();
    else leave(port);
  };
};
