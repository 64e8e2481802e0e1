/** Steps that somebody writes, and where they may enter a task. */
import { OVER, type Growth, type TaskTree, type Words } from "@/api/documents";
import { t } from "@/texts/texts";

export type Read = { growth: Growth; wrong: null } | { growth: null; wrong: string };

/** A list of steps, one step, or an object with `steps` or `stages`.  `wrong`: why it is none; "" of nothing written. */
export function growthIn(text: string): Read {
  if (text.trim() === "") return { growth: null, wrong: "" };
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    return { growth: null, wrong: t.hands.noJson(error instanceof Error ? error.message : String(error)) };
  }
  if (Array.isArray(found)) return { growth: { steps: found }, wrong: null };
  if (typeof found === "object" && found !== null) {
    if (lists(found, "steps") || lists(found, "stages")) return { growth: found as Growth, wrong: null };
    if ("id" in found) return { growth: { steps: [found as Words] }, wrong: null };
  }
  return { growth: null, wrong: t.hands.noSteps };
}

function lists(found: object, word: string): boolean {
  return word in found && Array.isArray(found[word as keyof typeof found]);
}

export function countOf({ steps, stages }: Growth): number {
  const all = stages?.flatMap((stage) => (Array.isArray(stage.steps) ? (stage.steps as unknown[]) : []));
  return (steps ?? all ?? []).length;
}

export type Places = { stages: readonly string[]; before: readonly string[]; after: readonly string[] };

/** What the server would take; `stage`: the one that was chosen, "" for that under way. */
export function placesIn(task: TaskTree, stage: string): Places {
  const chosen = task.stages.findIndex(({ name }) => name === stage) + 1; // steps count stages from 1
  const own = task.steps.filter((step) => step.owner === null);
  const begun = (state: string) => state !== "blocked" && state !== "ready";
  return {
    stages: task.stages.filter(({ status }) => !OVER.has(status)).map(({ name }) => name),
    before: own.filter((step) => !begun(step.state) && (!chosen || step.stage === chosen)).map(({ key }) => key),
    after: own.filter((step) => !chosen || step.stage <= chosen).map(({ key }) => key),
  };
}
