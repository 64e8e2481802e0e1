/** Follows the stream of all tasks, for ever: one connection at a time, resumed where it ended.
 *
 * It is read with fetch and not with EventSource, which can bear no token, does not tell why it was refused, and keeps
 * the server's heartbeats to itself, so that a connection that died in a sleep would look alive for minutes.
 */
import type { JournalEvent } from "@/api/documents";
import type { LiveState, LiveWord, Told } from "./protocol";
import { type Message, messageReader } from "./sse";

const STREAM = "/v1/stream";
const SILENCE_MAX_MS = 35_000; // a beat comes every fifteen seconds
const DOUBTFUL_MS = 17_000; // for whoever has just come back to the page
const WATCH_MS = 5_000;
const PAUSE_MIN_MS = 250;
const PAUSE_MAX_MS = 5_000;
const DENIED_MS = 30_000;

export type Feed = {
  state: () => LiveState;
  /** Somebody looks: a connection in doubt is made anew, a pause is cut short. */
  look: () => void;
  stop: () => void;
};

type Ended = "again" | "wait" | "denied";

export function startFeed(token: string | null, tell: (told: Told) => void): Feed {
  let state: LiveState = { word: "connecting", since: Date.now() };
  let mark: string | null = null;
  let heardAt = Date.now();
  let pauseMs = PAUSE_MIN_MS;
  let stopped = false;
  let connection: AbortController | null = null;
  let wake: () => void = () => {};

  function become(word: LiveWord): void {
    if (state.word === word) return;
    state = { word, since: Date.now() };
    tell({ kind: "state", state });
  }

  async function run(): Promise<void> {
    while (!stopped) {
      const ended = await follow().catch((): Ended => "wait");
      if (stopped) return;
      if (ended === "again") continue;
      become(ended === "denied" ? "denied" : "lost");
      await pause(ended === "denied" ? DENIED_MS : pauseMs);
      pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function follow(): Promise<Ended> {
    connection = new AbortController();
    const { signal } = connection;
    heardAt = Date.now();
    const watch = setInterval(() => {
      if (Date.now() - heardAt > SILENCE_MAX_MS) connection?.abort();
    }, WATCH_MS);
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (token !== null) headers.Authorization = `Bearer ${token}`;
      if (mark !== null) headers["Last-Event-ID"] = mark;
      const response = await fetch(STREAM, { headers, cache: "no-store", signal });
      if (response.status === 400 && mark !== null) {
        mark = null; // another database: from the beginning
        return "again";
      }
      if (response.status === 401 || response.status === 403) return "denied";
      if (!response.ok || response.body === null) return "wait";
      pauseMs = PAUSE_MIN_MS;
      become("live");
      return await read(response.body);
    } finally {
      clearInterval(watch);
      connection.abort();
      connection = null;
    }
  }

  async function read(body: ReadableStream<Uint8Array>): Promise<Ended> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const messages = messageReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "wait";
      heardAt = Date.now();
      const ended = take(messages(decoder.decode(value, { stream: true })));
      if (ended !== null) return ended;
    }
  }

  function take(messages: Message[]): Ended | null {
    const events: JournalEvent[] = [];
    let ended: Ended | null = null;
    for (const message of messages) {
      if (message.id !== null) mark = message.id;
      if (message.data === null) continue;
      if (message.event === "event") events.push(JSON.parse(message.data) as JournalEvent);
      else if (message.event === "snapshot") tell({ kind: "fresh" });
      else if (message.event === "closed") ended = closed(message.data);
    }
    if (events.length > 0) tell({ kind: "events", events });
    return ended;
  }

  function closed(data: string): Ended {
    const { reason, after } = JSON.parse(data) as { reason: string; after?: string | null };
    if (after) mark = after;
    return reason === "shutdown" || reason === "error" ? "wait" : "again";
  }

  void run();
  return {
    state: () => state,
    look() {
      if (connection !== null && Date.now() - heardAt > DOUBTFUL_MS) connection.abort();
      pauseMs = PAUSE_MIN_MS;
      wake();
    },
    stop() {
      stopped = true;
      connection?.abort();
      wake();
    },
  };
}
