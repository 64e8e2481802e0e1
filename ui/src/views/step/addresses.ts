/** The parts of a step's view, and their addresses. */
import type { StepDetail } from "@/api/documents";
import { stepAddress } from "@/parts/addresses";

export type Part = "run" | "output" | "changes" | "attempts" | "details";

const WRITES: ReadonlySet<string> = new Set(["run", "agent", "function", "call"]);

export function writes(step: StepDetail): boolean {
  return WRITES.has(step.kind);
}

/** Those that there can be something in, the one that is looked at first in front. */
export function partsOf(step: StepDetail): Part[] {
  const parts: Part[] = [];
  if (step.kind === "agent" && step.attempt > 0) parts.push("run");
  if (writes(step) && step.attempt > 0) parts.push("output");
  if (step.kind === "agent" || step.commit !== null) parts.push("changes");
  if (step.attempt > 0) parts.push("attempts");
  return parts.includes("output") ? [...parts, "details"] : ["details", ...parts];
}

/** Of its newest attempt where `attempt` is null. */
export function partAddress(task: string, step: string, part: Part, attempt: number | null): string {
  return `${stepAddress(task, step)}?view=${part}${attempt === null ? "" : `&attempt=${attempt}`}`;
}

export function attemptAddress(task: string, step: string, attempt: number): string {
  return `${stepAddress(task, step)}?attempt=${attempt}`;
}
