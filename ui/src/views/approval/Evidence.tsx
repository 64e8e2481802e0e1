/** What the work stands on: the steps before the question, tests and coverage, and whether they hold for this code. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Approval, Step } from "@/api/documents";
import { stepQuery } from "@/api/steps";
import { treeQuery } from "@/api/tasks";
import { stepAddress } from "@/parts/addresses";
import { State, StateMark } from "@/parts/State";
import { t } from "@/texts/texts";
import { isWords } from "./asked";

const SHOWN_MAX = 12;

type Tested = { step: Step; tests: number | null; coverage: number | null; commit: string | null };

export function Evidence({ approval, head }: { approval: Approval; head: string | null }) {
  const tree = useQuery(treeQuery(approval.task));
  const own = useQuery(stepQuery(approval.task, approval.step));
  const steps = tree.data?.steps ?? [];
  const needs = new Set(own.data?.needs ?? []);
  const tested = steps.map(testedOf).filter((one) => one !== null);
  const shown = new Set(tested.map(({ step }) => step.key));
  const others = steps.filter((step) => needs.has(step.key) && !shown.has(step.key));
  if (tested.length === 0 && others.length === 0) return null;
  return (
    <section aria-label={t.approval.evidence} className="flex min-w-0 flex-col gap-2">
      <h2 className="text-base font-semibold">{t.approval.evidence}</h2>
      <ul className="divide-y divide-line rounded-lg border border-line bg-surface">
        {tested.map((one) => (
          <TestedLine key={one.step.key} task={approval.task} tested={one} head={head} />
        ))}
        {others.slice(0, SHOWN_MAX).map((step) => (
          <li key={step.key} className="flex flex-wrap items-center gap-x-3 px-3 py-1.5">
            <StepName task={approval.task} step={step} />
            <span className="text-muted">{saidBy(step)}</span>
          </li>
        ))}
        {others.length > SHOWN_MAX ? (
          <li className="px-3 py-1.5 text-muted">{t.task.leftOut(others.length - SHOWN_MAX)}</li>
        ) : null}
      </ul>
    </section>
  );
}

function TestedLine({ task, tested, head }: { task: string; tested: Tested; head: string | null }) {
  const { step, tests, coverage, commit } = tested;
  const fresh = commit !== null && commit === head;
  return (
    <li className="flex flex-wrap items-center gap-x-3 px-3 py-1.5">
      <StepName task={task} step={step} />
      <span className="tabular-nums">
        {[tests === null ? "" : t.approval.tests(tests), coverage === null ? "" : t.approval.coverage(coverage)]
          .filter(Boolean)
          .join(", ")}
      </span>
      {commit === null || head === null ? null : (
        <span className={`inline-flex items-center gap-1.5 ${fresh ? "text-ok" : "text-wait"}`}>
          <StateMark state={fresh ? "completed" : "waiting"} />
          {fresh ? t.approval.fresh : t.approval.stale(commit.slice(0, 12))}
        </span>
      )}
    </li>
  );
}

function StepName({ task, step }: { task: string; step: Step }) {
  return (
    <>
      <State state={step.state} />
      <Link to={stepAddress(task, step.key)} className="font-medium break-all underline">
        {step.key}
      </Link>
    </>
  );
}

function testedOf(step: Step): Tested | null {
  const result: unknown = step.result;
  if (!isWords(result)) return null;
  const tests = typeof result.tests === "number" ? result.tests : null;
  const coverage = typeof result.coverage === "number" ? result.coverage : null;
  const commit = typeof result.tested === "string" ? result.tested : null;
  return commit === null && (tests === null || step.kind !== "run") ? null : { step, tests, coverage, commit };
}

/** How far it counted, or what it says of itself. */
function saidBy(step: Step): string {
  if (step.progress !== null && step.progress.total > 0) return t.words.of(step.progress.done, step.progress.total);
  const result: unknown = step.result;
  return isWords(result) && typeof result.summary === "string" ? (result.summary.split("\n", 1)[0] ?? "") : "";
}
