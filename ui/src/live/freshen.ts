/** Asks anew for what events have made stale: at once for the first of them, and never too often for the rest. */
import type { QueryClient, QueryKey } from "@tanstack/react-query";

const GAP_MS = 250;
const SHARE = 2; // an answer that takes long is asked for less often: a third of the time at most

/** An empty name is the beginning of all. */
export type Freshener = (found: readonly QueryKey[]) => void;

export function makeFreshener(client: QueryClient): Freshener {
  const stale = new Map<string, boolean>(); // of each name that is being asked for: has it become stale again?

  async function freshen(hash: string, queryKey: QueryKey): Promise<void> {
    while (stale.get(hash)) {
      stale.set(hash, false);
      const began = performance.now();
      // A first answer that is on its way is not asked for twice, and may be older than the event.
      const joined = client.isFetching({ queryKey, predicate: (query) => query.state.data === undefined }) > 0;
      const seen = document.visibilityState !== "hidden"; // else it is asked for when somebody looks
      await client.invalidateQueries({ queryKey, refetchType: seen ? "active" : "none" });
      if (joined) stale.set(hash, true);
      const took = performance.now() - began;
      await new Promise((resolve) => setTimeout(resolve, Math.max(GAP_MS - took, SHARE * took)));
    }
    stale.delete(hash);
  }

  return (found) => {
    for (const queryKey of found) {
      const hash = JSON.stringify(queryKey);
      const asking = stale.has(hash);
      stale.set(hash, true);
      if (!asking) void freshen(hash, queryKey);
    }
  };
}
