import { infiniteQueryOptions } from "@tanstack/react-query";
import { client, numbered, told } from "./client";
import { keys } from "./keys";

const PAGE = 500;

/** A task's journal, oldest first; null as the last `next`: the task has ended and nothing comes any more. */
export function eventsOfTaskQuery(task: string) {
  return infiniteQueryOptions({
    queryKey: keys.eventsOf(task),
    queryFn: ({ pageParam, signal }) =>
      told(
        client.GET("/v1/tasks/{task}/events", {
          params: { path: { task }, query: { cursor: numbered(pageParam), limit: PAGE } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.items.length === 0 ? undefined : (last.next ?? undefined)),
  });
}

/** The journal of all tasks, oldest first. */
export function eventsQuery() {
  return infiniteQueryOptions({
    queryKey: keys.events,
    queryFn: ({ pageParam, signal }) =>
      told(client.GET("/v1/events", { params: { query: { cursor: pageParam, limit: PAGE } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.items.length === 0 ? undefined : (last.next ?? undefined)),
  });
}

/** One page of a task's journal, or of that of all tasks when `task` is null; `cursor` is the `next` of the page before. */
export function readEvents(task: string | null, cursor: string | undefined, signal?: AbortSignal) {
  if (task === null) return told(client.GET("/v1/events", { params: { query: { cursor, limit: PAGE } }, signal }));
  return told(
    client.GET("/v1/tasks/{task}/events", {
      params: { path: { task }, query: { cursor: cursor === undefined ? undefined : Number(cursor), limit: PAGE } },
      signal,
    }),
  );
}
