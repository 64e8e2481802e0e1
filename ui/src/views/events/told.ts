/** An event in a few words, as the command line tells it. */
import type { JournalEvent } from "@/api/documents";
import { count, duration, firstLine, gist, money } from "@/texts/format";
import { t, worded } from "@/texts/texts";

type Fields = Readonly<Record<string, unknown>>;

const WORDS = ["outcome", "runtime", "goal", "which"] as const;
const MADE = ["summary", "decision", "name"] as const;

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function map(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

/** Whom it is about: a step, a stage, steps that were added; "" if it is the task. */
export function subjectOf({ data }: JournalEvent): string {
  if (Array.isArray(data.steps))
    return data.steps.slice(0, 5).map(String).join(", ") + (data.steps.length > 5 ? " …" : "");
  return text(data.step) || text(data.stage);
}

export function toldOf(event: JournalEvent): string {
  const data: Fields = event.data;
  const question = map(data.question);
  if (question !== null) return asked(question);
  const cause = map(data.cause);
  if (cause !== null) return came(cause);
  if (text(data.because))
    return data.benign ? t.events.notWantedBecause(text(data.because)) : t.events.because(text(data.because));
  if (data.benign === true) return t.events.notWanted;
  if (text(data.reason)) return gist(text(data.reason));
  if (event.type === "longtask.recorded")
    return t.events.used(text(data.model), Number(data.tokens_in ?? 0), Number(data.tokens_out ?? 0));
  if (event.type === "budget.near") return near(data);
  if (event.type === "artifact.created") return text(data.name);
  if (event.type === "step.started")
    return [t.trace.attempt(Number(data.attempt ?? 0)), text(data.worker) && t.tree.worker(text(data.worker))]
      .filter(Boolean)
      .join(" ");
  for (const key of WORDS) if (text(data[key])) return worded(t.words.outcome, firstLine(text(data[key])));
  const result = map(data.result);
  if (result !== null) return firstLine(MADE.map((key) => text(result[key])).find(Boolean) ?? "");
  if (!text(data.by)) return "";
  return data.now === true ? t.events.byAtOnce(text(data.by)) : t.events.by(text(data.by));
}

function asked(question: Fields): string {
  if (text(question.name)) return t.events.signal(text(question.name));
  return firstLine(text(question.text)) || gist(text(question.reason));
}

/** What of a limit is used, in its unit. */
function near({ which, used, limit, stage }: Fields): string {
  const shown = which === "micros" ? money : which === "active_ms" ? duration : count;
  const amount = t.task.ofLimit(shown(Number(used)), shown(Number(limit)));
  const told = shown === count ? `${amount} ${text(which)}` : amount;
  return text(stage) ? `${text(stage)}: ${told}` : told;
}

function came(cause: Fields): string {
  const words = [text(cause.decision) || text(cause.answer)];
  if (text(cause.by)) words.push(t.events.by(text(cause.by)));
  if (text(cause.signal)) words.push(t.events.signal(text(cause.signal)));
  if (cause.deadline) words.push(t.events.deadline);
  if (text(cause.text)) words.push(`(${firstLine(text(cause.text))})`);
  return words.filter(Boolean).join(" ");
}

/** The state whose mark and colour fit its type. */
export function markOf(type: string): string {
  const end = type.slice(type.lastIndexOf(".") + 1);
  if (type === "approval.required" || type === "ci.waiting" || type === "wait.started") return "waiting";
  if (type === "budget.near") return "paused";
  if (type === "budget.exceeded" || end === "doomed") return "failed";
  if (end === "retried" || end === "started") return "ready";
  return ["completed", "failed", "cancelled", "skipped", "paused"].includes(end) ? end : "blocked";
}
