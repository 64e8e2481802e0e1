/** How the steps stand, apart from the graph's shape: a node hears of its own steps alone, and only it is drawn anew. */
import { createContext, useCallback, useContext, useSyncExternalStore } from "react";
import type { Step } from "@/api/documents";

export type Steps = {
  step: (key: string) => Step | undefined;
  take: (steps: readonly Step[]) => void;
  subscribe: (listener: () => void) => () => void;
};

export function makeSteps(first: readonly Step[]): Steps {
  let known = new Map(first.map((step) => [step.key, step]));
  const listeners = new Set<() => void>();
  return {
    step: (key) => known.get(key),
    take(steps) {
      known = new Map(steps.map((step) => [step.key, step]));
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export const StepsContext = createContext<Steps>(makeSteps([]));

/** Undefined: it is newer than what is known. */
export function useStep(key: string | null): Step | undefined {
  const steps = useContext(StepsContext);
  return useSyncExternalStore(steps.subscribe, () => (key === null ? undefined : steps.step(key)));
}

export type Counts = ReadonlyArray<readonly [state: string, count: number]>;

const ORDER = ["failed", "cancelled", "waiting", "running", "merging", "ready", "blocked", "skipped", "completed"];

/** Of so many steps, how many stand in which state; what wants a look comes first. */
export function useCounts(keys: readonly string[]): Counts {
  const steps = useContext(StepsContext);
  const told = useCallback(() => countsText(steps, keys), [steps, keys]);
  return useSyncExternalStore(steps.subscribe, told)
    .split(" ")
    .filter(Boolean)
    .map((word) => {
      const [state = "", count = "0"] = word.split(":");
      return [state, Number(count)] as const;
    });
}

function countsText(steps: Steps, keys: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const key of keys) {
    const state = steps.step(key)?.state ?? "blocked";
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts]
    .sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other))
    .map(([state, count]) => `${state}:${count}`)
    .join(" ");
}
