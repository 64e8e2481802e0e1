/** One clock for all ages on the page: it ticks while somebody looks at one. */
import { useSyncExternalStore } from "react";

const TICK_MS = 1_000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const told of [...listeners]) told();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function current(): number {
  if (timer === undefined) now = Date.now();
  return now;
}

/** ms since 1970 UTC, whole seconds apart. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, current);
}
