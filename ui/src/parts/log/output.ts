/** What an attempt has written, page after page; and what it writes, as long as somebody looks. */
import { useCallback, useEffect, useState } from "react";
import { Problem } from "@/api/problem";
import { readOutput } from "@/api/steps";
import { type Line, makeLines } from "./lines";

const FIRST = 20; // chunks, of up to 64 kB each: something to read at once
const PAGE = 200;
const POLL_MS = 1_000;
const AGAIN_MS = 2_000; // after what passes

export type Output = {
  lines: readonly Line[];
  /** Changes when the lines do, which grow in place. */
  version: number;
  /** Nothing comes any more. */
  ended: boolean;
  /** All that was there when one began to look is here. */
  loaded: boolean;
  error: unknown;
  again: () => void;
};

type State = Omit<Output, "again">;
const START: State = { lines: [], version: 0, ended: false, loaded: false, error: null };

export function useOutput(task: string, step: string, attempt: number): Output {
  const [state, setState] = useState(START);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState(START);
    void read(task, step, attempt, setState, stop.signal);
    return () => stop.abort();
  }, [task, step, attempt, tries]);
  return { ...state, again: useCallback(() => setTries((n) => n + 1), []) };
}

async function read(
  task: string,
  step: string,
  attempt: number,
  become: (state: State) => void,
  signal: AbortSignal,
): Promise<void> {
  const lines = makeLines();
  let cursor: string | undefined;
  let version = 0;
  let loaded = false;
  while (!signal.aborted) {
    try {
      const page = await readOutput(task, step, attempt, cursor, cursor === undefined ? FIRST : PAGE, signal);
      if (signal.aborted) return;
      lines.add(page.items);
      const ended = page.next === null;
      const news = page.items.length > 0 || ended || !loaded;
      loaded ||= ended || page.items.length === 0;
      version += 1;
      if (news) become({ lines: lines.all, version, ended, loaded, error: null });
      if (page.next === null) return;
      cursor = page.next;
      if (page.items.length === 0) await pause(POLL_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      become({ lines: lines.all, version, ended: false, loaded, error });
      if (!(error instanceof Problem && error.passing)) return;
      await pause(AGAIN_MS, signal);
    }
  }
}

/** Longer while nobody looks. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
  while (document.visibilityState === "hidden" && !signal.aborted) {
    await new Promise<void>((resolve) => {
      document.addEventListener("visibilitychange", () => resolve(), { once: true });
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
