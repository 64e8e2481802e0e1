/** How a span is called beside its bar. */
import type { Span } from "@/api/documents";
import { t, worded } from "@/texts/texts";

export function attribute(span: Span, name: string): string {
  const value = span.attributes[name];
  return typeof value === "string" ? value : "";
}

export function nameOf(span: Span): string {
  switch (span.kind) {
    case "task":
    case "stage":
      return span.name.replace(/^(task|stage) /, "");
    case "step":
      return span.step ?? span.name;
    case "attempt":
      return t.trace.attempt(span.attempt ?? 0);
    case "wait": {
      const what = attribute(span, "longtask.waiting_for");
      return what === "merge" ? t.trace.merges : t.trace.waits(worded(t.timeline.waits, what));
    }
    case "run":
      return attribute(span, "gen_ai.agent.name") || span.name;
    case "turn":
      return attribute(span, "gen_ai.request.model") || span.name;
    case "tool":
      return attribute(span, "gen_ai.tool.name") || span.name;
    default:
      return span.name;
  }
}

/** What it came to, where that is not what one hopes for. */
export function endOf(span: Span): string {
  const came = attribute(span, "longtask.outcome") || attribute(span, "longtask.state");
  if (came !== "" && came !== "completed" && came !== "delivered") return worded(t.words.outcome, came);
  return span.status === "error" ? (t.words.state.failed ?? "") : "";
}
