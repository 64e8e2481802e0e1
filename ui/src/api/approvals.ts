import { queryOptions } from "@tanstack/react-query";
import { actKey, client, tagged, told } from "./client";
import type { Decision } from "./documents";
import { keys } from "./keys";

/** What is asked, the longest waiting first; `mine`: only what the caller may decide. */
export function approvalsQuery(mine = true) {
  return queryOptions({
    queryKey: [...keys.approvals, { mine }],
    queryFn: ({ signal }) => told(client.GET("/v1/approvals", { params: { query: { mine, limit: 500 } }, signal })),
  });
}

export function approvalsOfTaskQuery(task: string) {
  return queryOptions({
    queryKey: [...keys.approvals, { task }],
    queryFn: ({ signal }) => told(client.GET("/v1/tasks/{task}/approvals", { params: { path: { task } }, signal })),
  });
}

/** What a step asks, with the ETag that a decision on it names. */
export function approvalQuery(task: string, step: string) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "approval"],
    queryFn: ({ signal }) =>
      tagged(client.GET("/v1/tasks/{task}/steps/{step}/approval", { params: { path: { task, step } }, signal })),
  });
}

/** What a step asks about, as a patch, a text.  It belongs to the version that was seen, and is never asked for anew. */
export function askedPatchQuery(task: string, step: string, version: string) {
  return queryOptions({
    queryKey: ["asked patch", task, step, version],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/patch", { params: { path: { task }, query: { step } }, parseAs: "text", signal }),
      ),
    staleTime: "static",
  });
}

/** The same, as far as it has changed since a commit that was seen. */
export function patchSinceQuery(task: string, step: string, version: string, since: string) {
  return queryOptions({
    queryKey: ["asked patch", task, step, version, since],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/patch", {
          params: { path: { task }, query: { step, since } },
          parseAs: "text",
          signal,
        }),
      ),
    staleTime: "static",
  });
}

/** `etag`: of what was seen.  Throws a Problem `changed`, whose `current` is what is asked now, when that is something
 * else (null while it is not known yet); `refused` when somebody has answered already. */
export function decide(task: string, step: string, etag: string, decision: Decision) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/approval", {
      params: { path: { task, step }, header: { ...actKey(), "If-Match": etag } },
      body: decision,
    }),
  );
}
