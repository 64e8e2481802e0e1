/** What a step asks a person, all that it is about, and the answer.
 *
 * One version is looked at, and that one is answered.  When the question changes meanwhile, the view says so and waits;
 * the server refuses a decision on what is no longer asked.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import { approvalQuery, askedPatchQuery } from "@/api/approvals";
import type { Approval } from "@/api/documents";
import { Problem } from "@/api/problem";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { useStepParam, useTaskParam } from "@/parts/params";
import { useTitle } from "@/parts/Title";
import { t } from "@/texts/texts";
import { AnswerBar } from "./AnswerBar";
import { ChangedNote } from "./ChangedNote";
import { changesOf, marksOf } from "./changes";
import { Decided } from "./Decided";
import { useDraft } from "./draft";
import { Head } from "./Head";
import { Since } from "./Since";
import { Subject } from "./Subject";

export function ApprovalView() {
  const task = useTaskParam();
  const step = useStepParam();
  useTitle(t.approval.title(step));
  return <Question key={`${task} ${step}`} task={task} step={step} />;
}

function Question({ task, step }: { task: string; step: string }) {
  const lastSeen = useRef<Approval | null>(null); // it outlives a while in which nothing is asked
  const asked = useQuery(approvalQuery(task, step));
  const gone = asked.error instanceof Problem && asked.error.word === "not-found";
  const [over, setOver] = useState(gone); // an error is forgotten while the same is asked once more
  if (gone && !over) setOver(true);
  if (asked.isSuccess && over) setOver(false);
  if (over) return <Decided task={task} step={step} />;
  if (asked.data === undefined) {
    return asked.error === null ? (
      <Loading />
    ) : (
      <ProblemNote error={asked.error} onRetry={() => void asked.refetch()} />
    );
  }
  return (
    <>
      {asked.error === null ? null : <ProblemNote error={asked.error} onRetry={() => void asked.refetch()} />}
      <Asking now={asked.data.value} lastSeen={lastSeen} />
    </>
  );
}

/** `before`: what was looked at until then; `refused`: a decision on it was. */
type Look = { seen: Approval; before: Approval | null; refused: boolean };

function Asking({ now, lastSeen }: { now: Approval; lastSeen: RefObject<Approval | null> }) {
  const [{ seen, before, refused }, setLook] = useState<Look>(() => {
    const last = lastSeen.current;
    return { seen: now, before: last?.version === now.version ? null : last, refused: false };
  });
  const client = useQueryClient();
  const drafting = useDraft(seen.task, seen.step);
  const marks = useMarks(before, seen);
  const moved = now.version !== seen.version;

  const look = (next: Approval, wasRefused: boolean) => {
    setLook({ seen: next, before: seen, refused: wasRefused });
    client.setQueryData(approvalQuery(seen.task, seen.step).queryKey, { value: next, etag: `"${next.version}"` });
  };

  useEffect(() => {
    lastSeen.current = seen;
  }, [lastSeen, seen]);
  useEffect(() => {
    if (before !== null) document.getElementById("changed")?.focus();
  }, [before]);

  return (
    <article className="flex min-w-0 flex-1 flex-col gap-4">
      <Head approval={seen} />
      {moved ? (
        <ChangedNote
          title={t.approval.moved}
          changes={changesOf(seen, now)}
          act={{ word: t.approval.showNew, go: () => look(now, false) }}
        />
      ) : before === null ? null : (
        <ChangedNote title={refused ? t.approval.refused : t.approval.new} changes={changesOf(before, seen)} />
      )}
      {moved ? <Since seen={seen} now={now} /> : before === null ? null : <Since seen={before} now={seen} />}
      <Subject approval={seen} drafting={drafting} marks={marks} />
      <AnswerBar approval={seen} drafting={drafting} moved={moved} changed={(next) => look(next, true)} />
    </article>
  );
}

/** Files that are others than in the version before, as far as both patches are here. */
function useMarks(before: Approval | null, seen: Approval): ReadonlyMap<string, string> | undefined {
  const client = useQueryClient();
  const { task, step, version } = seen;
  const now = useQuery({ ...askedPatchQuery(task, step, version), enabled: false }).data;
  const then = before === null ? undefined : client.getQueryData(askedPatchQuery(task, step, before.version).queryKey);
  return useMemo(() => (then === undefined || now === undefined ? undefined : marksOf(then, now)), [then, now]);
}
