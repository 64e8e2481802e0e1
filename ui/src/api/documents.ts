/** The documents of the API, by the names that the page calls them. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Task = Schemas["ListedTask"];
export type TaskPage = Schemas["TaskPage"];
export type TaskTree = Schemas["TaskTree"];
export type Stage = Schemas["StageEntry"];
export type Step = Schemas["StepEntry"];
export type StepDetail = Schemas["StepDetail"];
export type Attempt = Schemas["Attempt"];
export type TurnEntry = Schemas["TurnEntry"];
export type OutputPage = Schemas["OutputPage"];
export type OutputChunk = Schemas["OutputChunk"];
export type Graph = Schemas["Graph"];
export type Changes = Schemas["Changes"];
export type FileEntry = Schemas["FileEntry"];
export type FileChange = Schemas["FileChange"];
export type Reason = Schemas["Reason"];
export type Approval = Schemas["Approval"];
export type Decision = Schemas["Decision"];
export type Acted = Schemas["Acted"];
export type Foreseen = Schemas["Foreseen"];
export type Growth = Schemas["Growth"];
/** Of a step, as a plan writes them; arguments of a call; any mapping. */
export type Words = Record<string, unknown>;
export type Artifact = Schemas["Artifact"];
export type JournalEvent = Schemas["CloudEvent"];
export type EventPage = Schemas["EventPage"];
export type Trace = Schemas["TraceDocument"];
export type Span = Schemas["SpanEntry"];
export type Fleet = Schemas["Fleet"];
export type Worker = Schemas["Worker"];
export type Pool = Schemas["Pool"];
export type Workspace = Schemas["Workspace"];
export type Who = Schemas["Who"];
export type ProblemItem = Schemas["ProblemItem"];

export type StepState =
  "blocked" | "ready" | "running" | "waiting" | "merging" | "completed" | "failed" | "cancelled" | "skipped";

/** Their work is others': an attempt of theirs only gives it out, and collects what came of it. */
export const GIVES_OUT: ReadonlySet<string> = new Set(["for_each", "task"]);

/** Of a step that is over: nothing moves it but a retry. */
export const OVER: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "skipped"]);
/** Statuses of tasks that have ended. */
export const ENDED: ReadonlySet<string> = new Set(["completed", "failed", "cancelled"]);
