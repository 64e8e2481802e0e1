/** A journal, read to its end and then followed.
 *
 * What the live layer hears only says that there is more: events are always read from where the last page ended, so that
 * none is missed and none comes twice, however often the connection broke.
 */
import { useEffect, useRef, useState } from "react";
import type { JournalEvent } from "@/api/documents";
import { readEvents } from "@/api/events";
import { useLiveEvents, useLiveState } from "@/live/Live";

const GAP_MS = 250; // at most so often, once its end is reached
const EVENTS_MAX = 50_000; // more are read when somebody asks for them

export type Journal = {
  /** Oldest first; it only grows. */
  events: readonly JournalEvent[];
  /** Everything that has happened is here. */
  whole: boolean;
  /** It is long: the rest is read by `more`. */
  stopped: boolean;
  error: Error | null;
  more: () => void;
};

type Reading = {
  task: string | null;
  types: readonly string[];
  events: JournalEvent[];
  cursor: string | undefined;
  /** How many events of the page at `cursor` are here: the last page of a task that has ended is asked for again. */
  taken: number;
  most: number;
  asked: boolean;
  reading: boolean;
  /** Its end was reached once: afterwards it is followed. */
  whole: boolean;
  readAt: number;
};

const ALL: readonly string[] = [];

/** `task` null: of all tasks.  `types`: only such events, the same list each time. */
export function useJournal(task: string | null, types = ALL): Journal {
  const [shown, setShown] = useState<Omit<Journal, "more">>({ events: [], whole: false, stopped: false, error: null });
  const { word } = useLiveState();
  const reading = useRef<Reading | null>(null);
  const wake = useRef<() => void>(() => {});

  useEffect(() => {
    const own: Reading = {
      task,
      types,
      events: [],
      cursor: undefined,
      taken: 0,
      most: EVENTS_MAX,
      asked: false,
      reading: false,
      whole: false,
      readAt: 0,
    };
    reading.current = own;
    const ended = new AbortController();
    setShown({ events: [], whole: false, stopped: false, error: null });

    async function read(): Promise<void> {
      own.asked = true;
      if (own.reading) return;
      own.reading = true;
      try {
        while (own.asked && !ended.signal.aborted && own.events.length < own.most) {
          own.asked = false;
          const wait = own.readAt + GAP_MS - Date.now();
          if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
          if (await page(own, ended.signal)) own.asked = true;
          else {
            own.whole = true;
            own.readAt = Date.now();
          }
          setShown({
            events: own.events,
            whole: own.whole,
            stopped: own.asked && own.events.length >= own.most,
            error: null,
          });
        }
      } catch (error) {
        if (!ended.signal.aborted) setShown((before) => ({ ...before, error: error as Error }));
      } finally {
        own.reading = false;
      }
    }

    wake.current = () => void read();
    void read();
    return () => ended.abort();
  }, [task, types]);

  useLiveEvents(task, () => wake.current());
  useEffect(() => {
    if (word === "live") wake.current();
  }, [word]);

  const more = () => {
    if (reading.current !== null) reading.current.most += EVENTS_MAX;
    wake.current();
  };
  return { ...shown, more };
}

/** True: there may be more at once. */
async function page(own: Reading, signal: AbortSignal): Promise<boolean> {
  const { items, next } = await readEvents(own.task, own.types, own.cursor, signal);
  const fresh = items.slice(own.taken);
  if (fresh.length > 0) own.events = own.events.concat(fresh);
  if (next === null || next === own.cursor) {
    own.taken = items.length;
    return false;
  }
  own.cursor = next;
  own.taken = 0;
  return true;
}
