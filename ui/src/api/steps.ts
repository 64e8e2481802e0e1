import { queryOptions } from "@tanstack/react-query";
import { actKey, client, numbered, told } from "./client";
import { keys } from "./keys";

export function stepQuery(task: string, step: string) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "detail"],
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/steps/{step}", { params: { path: { task, step } }, signal })),
  });
}

/** With its result in full, which may be large. */
export function stepValuesQuery(task: string, step: string) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "values"],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/steps/{step}", {
          params: { path: { task, step }, query: { values: true } },
          signal,
        }),
      ),
  });
}

/** Oldest first.  The server reads the task's journal for it: ask when somebody looks. */
export function attemptsQuery(task: string, step: string) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "attempts"],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/steps/{step}/attempts", {
          params: { path: { task, step }, query: { limit: 200 } },
          signal,
        }),
      ),
  });
}

/** What an attempt wrote, page after page; `next` null: nothing comes any more, else ask again with it. */
export function readOutput(
  task: string,
  step: string,
  attempt: number,
  cursor: string | undefined,
  limit: number,
  signal?: AbortSignal,
) {
  return told(
    client.GET("/v1/tasks/{task}/steps/{step}/attempts/{attempt}/output", {
      params: { path: { task, step, attempt }, query: { cursor: numbered(cursor), limit } },
      signal,
    }),
  );
}

export function retryStep(task: string, step: string) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/retry", { params: { path: { task, step }, header: actKey() } }),
  );
}

/** A failed or cancelled step is waived; one that has not begun is retired. */
export function skipStep(task: string, step: string) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/skip", { params: { path: { task, step }, header: actKey() } }),
  );
}

export function cancelStep(task: string, step: string) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/cancel", { params: { path: { task, step }, header: actKey() } }),
  );
}

export type ForeseenAct = "fork" | "retry" | "edit" | "reject";

/** What an act would make stale; asked when somebody is about to do it, and good for no longer. */
export function foreseenQuery(task: string, step: string, act: ForeseenAct) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "foreseen", act],
    gcTime: 0,
    retry: false,
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/steps/{step}/foreseen", {
          params: { path: { task, step }, query: { act } },
          signal,
        }),
      ),
  });
}

/** A new task that does the step again.  `paused`: not before it is resumed.  `key`: of `actKey`; the same one makes no second fork. */
export function forkTask(task: string, step: string, paused: boolean, key: ReturnType<typeof actKey>) {
  return told(
    client.POST("/v1/tasks/{task}/fork", { params: { path: { task }, header: key }, body: { from: step, paused } }),
  );
}
