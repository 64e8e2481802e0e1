/** Which of a step's work people may lay hands on, as far as the page knows; the server decides. */
import type { StepDetail, TaskTree } from "@/api/documents";
import { hasEnded } from "@/api/tasks";

const BY_HAND: ReadonlySet<string> = new Set(["run", "function", "agent", "call"]);
const EDITED: ReadonlySet<string> = new Set(["run", "function", "agent", "approval"]);
const WENT_WRONG: ReadonlySet<unknown> = new Set(["failed", "no_fix", "unknown", "limit"]);
const DELIVERED: ReadonlySet<string> = new Set(["running", "merging", "completed"]);

export function mayTake(task: TaskTree, step: StepDetail): boolean {
  if (step.owner !== null || !BY_HAND.has(step.kind) || closes(task)) return false;
  const { state } = step;
  if (state === "failed" || state === "cancelled") return true;
  return !hasEnded(task.status) && (state === "ready" || (state === "waiting" && WENT_WRONG.has(step.question?.kind)));
}

export function mayEdit(task: TaskTree, step: StepDetail): boolean {
  if (step.owner !== null || !EDITED.has(step.kind) || step.commit !== null || closes(task)) return false;
  if (DELIVERED.has(step.state) || (step.state === "skipped" && step.benign)) return false;
  return step.state !== "waiting" || (step.waiting_for === "user" && step.question?.kind !== "conflict");
}

/** It would stand still after an edit, unless it is retried with it. */
export function standsStill(step: StepDetail): boolean {
  const answers = step.question?.answers;
  return step.state === "failed" || step.state === "cancelled" || (Array.isArray(answers) && answers.includes("again"));
}

/** Nothing of it runs again. */
function closes(task: TaskTree): boolean {
  return task.status === "completed" || task.status === "cancelled" || task.status === "cancelling";
}
