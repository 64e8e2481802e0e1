/** What one wants to know beside a step's name, in words. */
import type { Step } from "@/api/documents";
import { firstLine, gist } from "@/texts/format";
import { t, worded } from "@/texts/texts";

export type Note = { text: string; ink: "muted" | "wait" | "bad" };

const NO_ATTEMPTS: ReadonlySet<string> = new Set(["approval", "for_each", "wait", "task"]);

/** Without what goes on by the second: progress and ages stand beside it. */
export function notesOf(step: Step, stages: readonly string[]): Note[] {
  const notes: Note[] = [];
  const summary = summaryOf(step);
  if (summary) notes.push({ text: summary, ink: "muted" });
  if (step.attempt > 1 && !NO_ATTEMPTS.has(step.kind)) notes.push({ text: t.tree.attempt(step.attempt), ink: "muted" });
  if (step.rounds > 0) notes.push({ text: t.tree.round(step.rounds), ink: "muted" });
  const reason = gist(step.reason);
  const child = step.child ?? null;
  if (child !== null) {
    const word = worded(t.words.state, child.status);
    notes.push({ text: t.tree.child(child.handle, word, child.percent), ink: "muted" });
  }
  switch (step.state) {
    case "waiting":
      if (child === null) notes.push({ text: waitOf(step), ink: "wait" });
      break;
    case "skipped":
      notes.push({
        text: step.benign ? t.tree.notWanted : t.tree.because(stageOr(step.because ?? "?", stages)),
        ink: "muted",
      });
      break;
    case "failed":
    case "cancelled":
      if (step.tolerated) notes.push({ text: t.tree.tolerated, ink: "muted" });
      if (reason) notes.push({ text: reason, ink: step.tolerated ? "muted" : "bad" });
      break;
    case "running":
      if (step.taken_by !== null) notes.push({ text: t.hands.takenBy(step.taken_by), ink: "wait" });
      break;
    case "ready":
    case "blocked":
      if (reason && (step.rounds > 0 || step.attempt > 0)) notes.push({ text: reason, ink: "muted" });
      break;
  }
  return notes;
}

function summaryOf(step: Step): string {
  const result: unknown = step.result;
  if (step.state !== "completed" || typeof result !== "object" || result === null || !("summary" in result)) return "";
  return typeof result.summary === "string" ? firstLine(result.summary) : "";
}

/** What a waiting step waits for. */
export function waitOf(step: Step): string {
  const question: Readonly<Record<string, unknown>> = step.question ?? {};
  if (step.waiting_for === "user") {
    const who = Array.isArray(question.who) && question.who.length > 0 ? question.who.join(", ") : t.words.anybody;
    return t.tree.asks(who, questionText(question));
  }
  if (typeof question.name === "string") return t.tree.waitsSignal(question.name);
  return t.tree.waitsFor(step.waiting_for ?? "?");
}

function questionText(question: Readonly<Record<string, unknown>>): string {
  if (typeof question.text === "string" && question.text) return firstLine(question.text);
  if (typeof question.reason === "string" && question.reason) return gist(question.reason);
  return String(question.kind ?? "");
}

/** `gate.2` is the end of the second stage. */
function stageOr(key: string, stages: readonly string[]): string {
  const number = /^gate\.(\d+)$/.exec(key)?.[1];
  const stage = number === undefined ? undefined : stages[Number(number) - 1];
  return stage === undefined ? key : t.tree.gate(stage);
}
