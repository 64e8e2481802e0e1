/** Why a step is not done, since when, and the commands that help: what `longtask why` says. */
import { useQuery } from "@tanstack/react-query";
import { ChevronRight, TriangleAlert } from "lucide-react";
import { Link } from "react-router";
import type { StepDetail } from "@/api/documents";
import { whyQuery } from "@/api/tasks";
import { Age } from "@/parts/Age";
import { approvalAddress } from "@/parts/addresses";
import { buttonClass } from "@/parts/Button";
import { CopyText } from "@/parts/CopyText";
import { t } from "@/texts/texts";

const LOOKS: Readonly<Record<string, string>> = {
  waiting: "bg-wait-soft",
  failed: "bg-bad-soft",
  cancelled: "bg-bad-soft",
};

export function Why({ task, step }: { task: string; step: StepDetail }) {
  const stands = step.state === "completed" || step.state === "running"; // there is nothing to explain
  const why = useQuery({ ...whyQuery(task, step.key), enabled: !stands });
  const reasons = stands ? [] : (why.data?.items ?? []);
  if (reasons.length === 0) return null;
  const asks = step.state === "waiting" && step.waiting_for === "user";
  return (
    <ul aria-label={t.step.why} className="flex flex-col gap-1.5">
      {reasons.map((reason, index) => (
        <li
          key={`${index} ${reason.what}`}
          className={`flex flex-wrap items-center gap-x-3 gap-y-1.5 rounded-md px-3 py-2 ${LOOKS[step.state] ?? "bg-raised"}`}
        >
          {step.state in LOOKS ? (
            <TriangleAlert
              size={15}
              aria-hidden
              className={`shrink-0 ${step.state === "waiting" ? "text-wait" : "text-bad"}`}
            />
          ) : null}
          <span className="min-w-48 flex-1 break-words">
            {reason.what}
            {reason.since === null ? null : (
              <span className="text-muted">
                {" · "}
                <Age at={reason.since} />
              </span>
            )}
          </span>
          {reason.details.length === 0 ? null : (
            <ul aria-label={t.step.details} className="basis-full list-disc pl-5">
              {reason.details.map((line, index) => (
                <li key={`${index} ${line}`} className="break-words whitespace-pre-wrap">
                  {line}
                </li>
              ))}
            </ul>
          )}
          {asks ? (
            <Link to={approvalAddress(task, step.key)} className={`${buttonClass("main")} max-sm:basis-full`}>
              {t.step.decide}
            </Link>
          ) : null}
          {reason.help.length === 0 ? null : (
            <details className="group basis-full text-muted">
              <summary className="flex list-none items-center gap-1.5">
                <ChevronRight size={14} aria-hidden className="group-open:rotate-90" />
                {t.step.commands(reason.help.length)}
              </summary>
              <ul className="mt-1 flex flex-wrap gap-1.5 text-ink">
                {reason.help.map((command) => (
                  <li key={command} className="max-w-full">
                    <CopyText text={command} />
                  </li>
                ))}
              </ul>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
