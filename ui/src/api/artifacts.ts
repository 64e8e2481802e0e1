import { queryOptions } from "@tanstack/react-query";
import { client, told } from "./client";
import { keys } from "./keys";
import { Problem } from "./problem";

/** `all`: older ones of the same name too. */
export function artifactsQuery(task: string, all = false) {
  return queryOptions({
    queryKey: [...keys.artifacts(task), { all }],
    queryFn: ({ signal }) =>
      told(client.GET("/v1/tasks/{task}/artifacts", { params: { path: { task }, query: { all } }, signal })),
  });
}

/** Its bytes; a digest names them for ever. */
export function artifactQuery(task: string, name: string, digest: string) {
  return queryOptions({
    queryKey: [...keys.task(task), "artifact", digest],
    queryFn: ({ signal }) =>
      told(
        client.GET("/v1/tasks/{task}/artifacts/{name}", {
          params: { path: { task, name }, query: { digest } },
          parseAs: "blob",
          signal,
        }),
      ) as Promise<unknown> as Promise<Blob>,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** What an attempt of an agent has kept of its run, a text; null: nothing, or it has not ended. */
export function transcriptQuery(task: string, step: string, attempt: number) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "transcript", attempt],
    queryFn: async ({ signal }) => {
      const name = `transcript/${step}.${attempt}.jsonl`;
      const asked = client.GET("/v1/tasks/{task}/artifacts/{name}", {
        params: { path: { task, name } },
        parseAs: "text",
        signal,
      });
      return told(asked as Promise<unknown> as Promise<{ data?: string; error?: unknown; response: Response }>).catch(
        (error: unknown) => {
          if (error instanceof Problem && error.word === "not-found") return null;
          throw error;
        },
      );
    },
  });
}
