/** One thing that is asked: what, since when, what it holds up; and the answers. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import type { Approval } from "@/api/documents";
import { blockedBy } from "@/api/graph";
import { graphQuery } from "@/api/tasks";
import { Age, Left } from "@/parts/Age";
import { approvalAddress, taskAddress } from "@/parts/addresses";
import { Button, buttonClass } from "@/parts/Button";
import { DecideDialog, PLAIN_ANSWERS } from "@/parts/DecideDialog";
import { plain } from "@/parts/log/ansi";
import { useMay } from "@/parts/roles";
import { StateMark } from "@/parts/State";
import { problemsIn } from "@/texts/format";
import { t, worded } from "@/texts/texts";

const AT_HAND = 3; // answers beside the text; the others stand in the approval's own view
const SIDE: ReadonlySet<string> = new Set(["respond"]); // possible, and not what is usually wanted

export function AskedCard({ approval }: { approval: Approval }) {
  const [answer, setAnswer] = useState<string | null>(null);
  const may = useMay("approver");
  const graph = useQuery(graphQuery(approval.task));
  const address = approvalAddress(approval.task, approval.step);
  const answers = approval.answers.filter((word) => PLAIN_ANSWERS.has(word) && !SIDE.has(word)).slice(0, AT_HAND);
  const shown = shownBy(approval);
  const problems = problemsOf(approval);
  return (
    <li className="rounded-lg border border-line bg-surface px-4 py-3">
      <div className="flex flex-wrap items-baseline gap-x-2 text-muted">
        <span className="inline-flex items-center gap-1.5 self-center font-medium text-wait">
          <StateMark state="waiting" />
          {worded(t.words.question, approval.kind)}
        </span>
        <Link to={taskAddress(approval.task)} className="hover:underline">
          {approval.handle}
        </Link>
        <span aria-hidden>·</span>
        <span>{approval.step}</span>
        {approval.since === null ? null : (
          <span className="sm:ml-auto">
            {t.inbox.since} <Age at={approval.since} />
          </span>
        )}
      </div>
      <h2 className="mt-1 text-lg font-semibold">
        <Link data-row to={address} className="hover:underline">
          {approval.text}
        </Link>
      </h2>
      {problems.length < 2 ? null : (
        <ul aria-label={t.inbox.problems} className="my-1 list-disc pl-5">
          {problems.map((problem, index) => (
            <li key={`${index} ${problem}`} className="break-words">
              {problem}
            </li>
          ))}
        </ul>
      )}
      <p className="mt-0.5 flex flex-wrap gap-x-4 text-muted">
        {graph.data ? <span>{t.inbox.blocks(blockedBy(graph.data, approval.step))}</span> : null}
        {shown.map((text) => (
          <span key={text}>{text}</span>
        ))}
        {approval.expires_at === null ? null : (
          <span>
            {t.inbox.expires} <Left until={approval.expires_at} />
          </span>
        )}
      </p>
      <div className="mt-2.5 flex flex-wrap gap-2">
        {answers.map((word, index) => (
          <Button
            key={word}
            look={index === 0 ? "main" : "plain"}
            disabled={!may}
            title={may ? undefined : t.task.mayNot}
            onClick={() => setAnswer(word)}
          >
            {worded(t.words.answer, word)}
          </Button>
        ))}
        <Link to={address} className={buttonClass("plain")}>
          {t.inbox.open}
        </Link>
      </div>
      {answer === null ? null : <DecideDialog approval={approval} answer={answer} onClose={() => setAnswer(null)} />}
    </li>
  );
}

type Shown = { diff?: { files?: number; insertions?: number; deletions?: number }; artifacts?: { name: string }[] };

/** What it shows, in a few words. */
function shownBy(approval: Approval): string[] {
  const { diff, artifacts = [] } = (approval.question.show ?? {}) as Shown;
  const found: string[] = [];
  if (diff?.files !== undefined) found.push(t.inbox.shows.diff(diff.files, diff.insertions ?? 0, diff.deletions ?? 0));
  if (artifacts.length > 0) found.push(t.inbox.shows.artifacts(artifacts.map((artifact) => artifact.name).join(", ")));
  return found;
}

/** What is wrong, one by one, where its reason is a list of that. */
function problemsOf({ question }: Approval): string[] {
  return typeof question.reason === "string" ? problemsIn(plain(question.reason)) : [];
}
