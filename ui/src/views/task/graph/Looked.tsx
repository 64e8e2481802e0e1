/** About the node that one is at: how it stands, and what it waits for. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { OVER, type Step } from "@/api/documents";
import { whyQuery } from "@/api/tasks";
import { Took } from "@/parts/Age";
import { stepAddress } from "@/parts/addresses";
import { State } from "@/parts/State";
import { t } from "@/texts/texts";

const REASONS_MAX = 3;

export function Looked({ task, step }: { task: string; step: Step }) {
  const over = OVER.has(step.state);
  const why = useQuery({ ...whyQuery(task, step.key), enabled: !over });
  const reasons = over ? [] : (why.data?.items ?? []).slice(0, REASONS_MAX);
  return (
    <aside
      aria-label={t.graph.looked}
      className="flex max-w-md flex-col gap-1 rounded-lg border border-line bg-surface px-3 py-2 shadow-high"
    >
      <div className="flex items-center gap-3">
        <Link to={stepAddress(task, step.key)} className="min-w-0 truncate font-medium hover:underline">
          {step.key}
        </Link>
        <State state={step.state} />
        {step.began_at === null ||
        (step.ended_at === null && step.state !== "running" && step.state !== "waiting") ? null : (
          <span className="text-muted">
            <Took from={step.began_at} to={step.ended_at} />
          </span>
        )}
      </div>
      {reasons.map((reason) => (
        <p key={`${reason.step} ${reason.what}`} className="text-muted">
          {reason.what}
        </p>
      ))}
    </aside>
  );
}
