/** What an attempt came to, by shape and word. */
import type { Attempt } from "@/api/documents";
import { StateMark } from "@/parts/State";
import { t, worded } from "@/texts/texts";

const MARKS: Readonly<Record<string, string>> = {
  delivered: "completed",
  released: "ready",
  parked: "waiting",
  asked: "waiting",
  expanded: "blocked",
};

export function OutcomeMark({ attempt }: { attempt: Attempt }) {
  const outcome = attempt.outcome ?? "running";
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <StateMark state={MARKS[outcome] ?? outcome} />
      {worded(t.words.outcome, outcome)}
    </span>
  );
}
