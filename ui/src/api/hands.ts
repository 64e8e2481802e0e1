/** What people do to the work of a task that is under way: steps said anew, taken and done by hand, added. */
import { queryOptions } from "@tanstack/react-query";
import { actKey, client, told } from "./client";
import type { Growth, Words } from "./documents";
import { keys } from "./keys";

/** What a step is to do, in the words that an edit takes; null: it cannot be edited.  Good for one look. */
export function stepWordsQuery(task: string, step: string) {
  return queryOptions({
    queryKey: [...keys.step(task, step), "words"],
    gcTime: 0,
    queryFn: async ({ signal }): Promise<Words | null> => {
      const asked = client.GET("/v1/tasks/{task}/steps/{step}", {
        params: { path: { task, step }, query: { words: true } },
        signal,
      });
      return (await told(asked)).words ?? null;
    },
  });
}

/** `again`: and it is taken up again at once. */
export function editStep(task: string, step: string, words: Words, again: boolean) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/edit", {
      params: { path: { task, step }, header: actKey() },
      body: { words, retry: again },
    }),
  );
}

/** After `hours` it is given back by itself. */
export function takeStep(task: string, step: string, hours: number) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/take", {
      params: { path: { task, step }, header: actKey() },
      body: { hours },
    }),
  );
}

export function giveBackStep(task: string, step: string) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/give-back", { params: { path: { task, step }, header: actKey() } }),
  );
}

/** `outputs`: what it hands over; null: nothing. */
export function finishStep(task: string, step: string, outputs: Words | null) {
  return told(
    client.POST("/v1/tasks/{task}/steps/{step}/done", {
      params: { path: { task, step }, header: actKey() },
      body: { outputs },
    }),
  );
}

/** Throws a Problem with all that is wrong with them; nothing is added then. */
export function addSteps(task: string, growth: Growth) {
  return told(client.POST("/v1/tasks/{task}/steps", { params: { path: { task }, header: actKey() }, body: growth }));
}
