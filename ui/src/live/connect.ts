/** A tab's end of the live stream: by the shared worker, or by a connection of its own where there is none. */
import { type Feed, startFeed } from "./feed";
import type { Said, Told } from "./protocol";

export type Connection = {
  sign: (token: string | null) => void;
  look: () => void;
  close: () => void;
};

export function connect(token: string | null, tell: (told: Told) => void): Connection {
  if (typeof SharedWorker === "undefined") return alone(token, tell);
  let shared: SharedWorker;
  try {
    shared = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: "longtask" });
  } catch {
    return alone(token, tell);
  }
  return together(shared, token, tell);
}

function alone(token: string | null, tell: (told: Told) => void): Connection {
  let feed: Feed = startFeed(token, tell);
  return {
    sign(next) {
      feed.stop();
      feed = startFeed(next, tell);
      tell({ kind: "state", state: feed.state() });
    },
    look: () => feed.look(),
    close: () => feed.stop(),
  };
}

/** A worker that does not come up (a policy of the browser, a private window) is replaced by one's own connection. */
function together(shared: SharedWorker, token: string | null, tell: (told: Told) => void): Connection {
  const { port } = shared;
  let own: Connection | null = null;
  let held = token;
  const say = (said: Said) => port.postMessage(said);

  port.onmessage = ({ data }: MessageEvent<Told>) => tell(data);
  shared.onerror = () => {
    port.close();
    own ??= alone(held, tell);
  };
  say({ kind: "hello", token });
  return {
    sign(next) {
      held = next;
      if (own === null) say({ kind: "hello", token: next });
      else own.sign(next);
    },
    look() {
      if (own === null) say({ kind: "look" });
      else own.look();
    },
    close() {
      if (own === null) say({ kind: "bye" });
      else own.close();
    },
  };
}
