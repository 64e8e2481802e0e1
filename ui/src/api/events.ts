import { client, numbered, told } from "./client";

const PAGE = 500;

/** One page of a task's journal, or of that of all tasks when `task` is null; `cursor` is the `next` of the page before.
 * `types`: only such, of one task. */
export function readEvents(
  task: string | null,
  types: readonly string[],
  cursor: string | undefined,
  signal?: AbortSignal,
) {
  if (task === null) return told(client.GET("/v1/events", { params: { query: { cursor, limit: PAGE } }, signal }));
  return told(
    client.GET("/v1/tasks/{task}/events", {
      params: { path: { task }, query: { cursor: numbered(cursor), limit: PAGE, type: [...types] } },
      signal,
    }),
  );
}
