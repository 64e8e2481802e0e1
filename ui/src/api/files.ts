import { queryOptions } from "@tanstack/react-query";
import { client, told } from "./client";
import { keys } from "./keys";

const LIST_MAX = 200;

/** Files that fit a pattern, as they stand at `commit`, a full id: that never changes. */
export function filesQuery(task: string, pattern: string, commit: string) {
  return queryOptions({
    queryKey: [...keys.files(task), commit, "list", pattern],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/files", {
          params: { path: { task }, query: { at: commit, match: pattern, limit: LIST_MAX } },
          signal,
        }),
      ),
    staleTime: "static",
  });
}

/** The bytes of one, with the type that they are told to be of. */
export function fileQuery(task: string, path: string, commit: string) {
  return queryOptions({
    queryKey: [...keys.files(task), commit, "file", path],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/files/{path}", {
          params: { path: { task, path }, query: { at: commit } },
          parseAs: "blob",
          signal,
        }),
      ) as Promise<unknown> as Promise<Blob>,
    staleTime: "static",
  });
}
