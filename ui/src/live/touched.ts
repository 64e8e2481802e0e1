/** Which answers an event makes stale. */
import type { QueryKey } from "@tanstack/react-query";
import type { JournalEvent } from "@/api/documents";
import { keys } from "@/api/keys";

const SOURCE = "/tasks/";
/** These move nothing that a list of tasks, or of what is asked, tells. */
const QUIET: ReadonlySet<string> = new Set(["step.started", "step.ready", "agent.run.started"]);

export function taskOf(event: JournalEvent): string {
  return event.source.startsWith(SOURCE) ? event.source.slice(SOURCE.length) : event.source;
}

/** Null: it is about none. */
export function stepOf(event: JournalEvent): string | null {
  const step = event.data.step;
  return typeof step === "string" ? step : null;
}

/** A journal is not among them: whoever shows one appends the event itself. */
export function touched(event: JournalEvent): QueryKey[] {
  const task = taskOf(event);
  const step = stepOf(event);
  const found: QueryKey[] = [keys.tree(task), keys.why(task), keys.trace(task), keys.tasks];
  if (!QUIET.has(event.type)) found.push(keys.approvals, keys.changes(task));
  if (step !== null) found.push(keys.step(task, step));
  if (event.type === "step.added") found.push(keys.graph(task));
  if (event.type === "artifact.created") found.push(keys.artifacts(task));
  return found;
}
