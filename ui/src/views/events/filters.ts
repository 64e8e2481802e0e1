/** Which events are shown, kept in the address. */
import type { JournalEvent } from "@/api/documents";
import { stepOf, taskOf } from "@/live/touched";

/** `type`: a whole one, or the beginning of several, which ends in a dot.  `task`: an id.  "" lets all through. */
export type EventFilters = { type: string; step: string; task: string; oldestFirst: boolean };

export function filtersOf(params: URLSearchParams): EventFilters {
  return {
    type: params.get("type") ?? "",
    step: params.get("step") ?? "",
    task: params.get("task") ?? "",
    oldestFirst: params.get("order") === "oldest",
  };
}

export function changed(params: URLSearchParams, key: string, value: string): URLSearchParams {
  const next = new URLSearchParams(params);
  if (value === "") next.delete(key);
  else next.set(key, value);
  return next;
}

export type Entry = { id: string; event: JournalEvent };

/** An event comes again with each look at a journal that grows: what was made of it is kept. */
const made = new WeakMap<JournalEvent, Entry>();

function entryOf(event: JournalEvent, nth: number): Entry {
  const known = made.get(event);
  if (known !== undefined) return known;
  const entry = { id: `${event.id} ${nth}`, event };
  made.set(event, entry);
  return entry;
}

/** Those that fit, in the order that is asked for. */
export function entriesOf(events: readonly JournalEvent[], { type, step, task, oldestFirst }: EventFilters): Entry[] {
  const wanted = step.toLowerCase();
  const found: Entry[] = [];
  let last = "";
  let nth = 0;
  for (const event of events) {
    nth = event.id === last ? nth + 1 : 0; // one fact may show as several events, which share its id
    last = event.id;
    if (type !== "" && event.type !== type && !(type.endsWith(".") && event.type.startsWith(type))) continue;
    if (task !== "" && taskOf(event) !== task) continue;
    if (wanted !== "" && !(stepOf(event) ?? "").toLowerCase().includes(wanted)) continue;
    found.push(entryOf(event, nth));
  }
  return oldestFirst ? found : found.reverse();
}

/** The types that occur, and the families of them that have several. */
export function typesOf(events: readonly JournalEvent[]): { types: string[]; families: string[] } {
  const types = [...new Set(events.map((event) => event.type))].sort();
  const sizes = new Map<string, number>();
  for (const type of types) {
    const family = type.slice(0, type.lastIndexOf(".") + 1);
    sizes.set(family, (sizes.get(family) ?? 0) + 1);
  }
  return {
    types,
    families: [...sizes].filter(([family, size]) => family !== "" && size > 1).map(([family]) => family),
  };
}
