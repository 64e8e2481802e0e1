/** What the one who follows the server tells the tabs, and what they say to it. */
import type { JournalEvent } from "@/api/documents";

/** `connecting`: not heard yet; `lost`: was live, and tries again; `denied`: the server wants (another) token. */
export type LiveWord = "connecting" | "live" | "lost" | "denied";

/** `since`: when it became so, ms since 1970 UTC. */
export type LiveState = { word: LiveWord; since: number };

export type Told =
  | { kind: "state"; state: LiveState }
  | { kind: "events"; events: JournalEvent[] }
  /** The stream began anew, not where it had ended: what was asked before may be old. */
  | { kind: "fresh" };

export type Said = { kind: "hello"; token: string | null } | { kind: "look" } | { kind: "bye" };
