import { queryOptions } from "@tanstack/react-query";
import { client, told } from "./client";
import { keys } from "./keys";

/** Spans by their beginning.  They lag a little behind the journal. */
export function traceQuery(task: string, limit?: number) {
  return queryOptions({
    queryKey: [...keys.trace(task), limit ?? null],
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/trace", { params: { path: { task }, query: { limit } }, signal })),
  });
}
