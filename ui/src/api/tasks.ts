import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { actKey, client, told } from "./client";
import { ENDED, type Graph, type TaskTree } from "./documents";
import { keys } from "./keys";

export type TaskFilters = {
  open?: boolean;
  status?: readonly string[];
  name?: string;
  by?: string;
  workspace?: string;
};

const PAGE = 50;

/** Newest first, page after page. */
export function tasksQuery(filters: TaskFilters = {}) {
  return infiniteQueryOptions({
    queryKey: [...keys.tasks, "list", filters],
    queryFn: ({ pageParam, signal }) =>
      told(
        client.GET("/v1/tasks", {
          params: {
            query: {
              ...filters,
              status: filters.status ? [...filters.status] : undefined,
              cursor: pageParam,
              limit: PAGE,
            },
          },
          signal,
        }),
      ),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (last) => (last.next === null ? undefined : Number(last.next)),
    placeholderData: keepPreviousData,
  });
}

/** `task`: its id; of a handle too, but then no event freshens it. */
export function treeQuery(task: string) {
  return queryOptions({
    queryKey: keys.tree(task),
    queryFn: ({ signal }) => told(client.GET("/v1/tasks/{task}", { params: { path: { task } }, signal })),
  });
}

/** What waits for what.  States go stale here: take them from the tree. */
export function graphQuery(task: string) {
  return queryOptions({
    queryKey: keys.graph(task),
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/graph", { params: { path: { task } }, signal })) as Promise<Graph>, // pairs
  });
}

/** What the task waits for, or why one step is not done. */
export function whyQuery(task: string, step?: string) {
  return queryOptions({
    queryKey: [...keys.why(task), step ?? null],
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/why", { params: { path: { task }, query: { step } }, signal })),
  });
}

/** The plan as it was submitted, a text. */
export function planQuery(task: string) {
  return queryOptions({
    queryKey: keys.plan(task),
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/plan", { params: { path: { task } }, parseAs: "text", signal })),
  });
}

/** Which files the task, or one step, has changed. */
export function changesQuery(task: string, step?: string) {
  return queryOptions({
    queryKey: [...keys.changes(task), "files", step ?? null],
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/diff", { params: { path: { task }, query: { step } }, signal })),
  });
}

/** The same as a patch, a text. */
export function patchQuery(task: string, step?: string) {
  return queryOptions({
    queryKey: [...keys.changes(task), "patch", step ?? null],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/patch", { params: { path: { task }, query: { step } }, parseAs: "text", signal }),
      ),
  });
}

/** Steps that are over, of all: without gates, which the counts hold too, and with items that are still to begin. */
export function stepsDone(task: TaskTree): { done: number; total: number } {
  const { steps = 0, open = 0, gates = 0 } = task.counts;
  const stages = task.stages.length;
  const made = Math.max(steps - stages, 0);
  const toBegin = task.steps.reduce((sum, { items }) => sum + (items ? Math.max(items.total - items.begun, 0) : 0), 0);
  return { done: Math.max(made - (open - (stages - gates)), 0), total: made + toBegin };
}

export function hasEnded(status: string): boolean {
  return ENDED.has(status);
}

/** `now`: running steps give back too. */
export function pauseTask(task: string, now: boolean) {
  return told(client.POST("/v1/tasks/{task}/pause", { params: { path: { task }, header: actKey() }, body: { now } }));
}

/** With a limit: it is raised to this first. */
export function resumeTask(task: string, limits: { cost_usd?: number; tokens?: number } = {}) {
  return told(client.POST("/v1/tasks/{task}/resume", { params: { path: { task }, header: actKey() }, body: limits }));
}

export function cancelTask(task: string, reason: string) {
  return told(
    client.POST("/v1/tasks/{task}/cancel", { params: { path: { task }, header: actKey() }, body: { reason } }),
  );
}
