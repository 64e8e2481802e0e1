import { queryOptions } from "@tanstack/react-query";
import { client, told } from "./client";
import type { TurnEntry } from "./documents";
import { keys } from "./keys";

const PAGE = 200;

/** The calls of an agent's newest run so far.  What is over is not asked for again; `run`: another one begins anew. */
export function turnsQuery(task: string, step: string, run: number) {
  const queryKey = [...keys.step(task, step), "turns", run];
  return queryOptions({
    queryKey,
    queryFn: async ({ client: cache, signal }) => {
      const rows = (cache.getQueryData<TurnEntry[]>(queryKey) ?? []).filter((row) => row.body !== null);
      for (;;) {
        const query = { cursor: rows.at(-1)?.n, limit: PAGE };
        const page = await told(
          client.GET("/v1/tasks/{task}/steps/{step}/turns", { params: { path: { task, step }, query }, signal }),
        );
        rows.push(...page.items);
        if (page.items.length < PAGE) return rows;
      }
    },
  });
}
