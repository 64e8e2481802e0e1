/** What is asked, of whom, since when, until when, and what waits for the answer. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Approval } from "@/api/documents";
import { blockedBy } from "@/api/graph";
import { graphQuery } from "@/api/tasks";
import { Age, Left } from "@/parts/Age";
import { stepAddress } from "@/parts/addresses";
import { Figure } from "@/parts/Figure";
import { StateMark } from "@/parts/State";
import { useNow } from "@/parts/now";
import { t, worded } from "@/texts/texts";
import { textOf } from "./asked";

const DEPENDENTS_MAX = 6;

export function Head({ approval }: { approval: Approval }) {
  const { title, more } = textOf(approval);
  return (
    <header className="flex flex-col gap-2">
      <p className="flex flex-wrap items-center gap-x-2 text-muted">
        <span className="inline-flex items-center gap-1.5 font-medium text-wait">
          <StateMark state="waiting" />
          {worded(t.words.question, approval.kind)}
        </span>
        <Link to={stepAddress(approval.task, approval.step)} className="break-all underline">
          {approval.step}
        </Link>
        <a href="#answer" className="sr-only focus:not-sr-only focus:rounded focus:px-2">
          {t.approval.toAnswer}
        </a>
      </p>
      <h1 className="max-w-prose text-xl font-semibold break-words">{title}</h1>
      {more === "" ? null : <p className="max-w-prose break-words whitespace-pre-wrap">{more}</p>}
      <dl className="flex flex-wrap gap-x-6 gap-y-1">
        {approval.since === null ? null : (
          <Figure name={t.approval.since}>
            <Age at={approval.since} />
          </Figure>
        )}
        <Figure name={t.approval.expires}>
          {approval.expires_at === null ? t.approval.never : <Expiry at={approval.expires_at} />}
        </Figure>
        <Figure name={t.approval.who}>{approval.who.length > 0 ? approval.who.join(", ") : t.approval.anybody}</Figure>
        <Blocks approval={approval} />
      </dl>
    </header>
  );
}

function Expiry({ at }: { at: number }) {
  const now = useNow();
  return now >= at ? (
    <span className="text-bad">{t.inbox.expired}</span>
  ) : (
    <>
      {t.approval.in} <Left until={at} />
    </>
  );
}

function Blocks({ approval }: { approval: Approval }) {
  const graph = useQuery(graphQuery(approval.task));
  if (graph.data === undefined) return null;
  const blocked = blockedBy(graph.data, approval.step);
  const next = (graph.data.edges as [string, string][])
    .filter(([need]) => need === approval.step)
    .map(([, step]) => step);
  return (
    <Figure name={t.approval.blocks}>
      {blocked === 0 ? t.approval.blocksNothing : t.words.steps(blocked)}
      {next.length === 0 ? null : (
        <span className="text-muted">
          {": "}
          {next.slice(0, DEPENDENTS_MAX).map((step, index) => (
            <span key={step}>
              {index > 0 ? ", " : ""}
              <Link to={stepAddress(approval.task, step)} className="underline">
                {step}
              </Link>
            </span>
          ))}
          {next.length > DEPENDENTS_MAX || blocked > next.length ? " …" : ""}
        </span>
      )}
    </Figure>
  );
}
