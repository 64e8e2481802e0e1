/** The rows of the tree. */
import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Hourglass } from "lucide-react";
import { memo, useRef } from "react";
import { Link } from "react-router";
import { type Attempt, GIVES_OUT, OVER, type Step } from "@/api/documents";
import { stepQuery } from "@/api/steps";
import { useLiveState } from "@/live/Live";
import { Left, Took } from "@/parts/Age";
import { approvalAddress, stepAddress } from "@/parts/addresses";
import { KindMark } from "@/parts/KindMark";
import { useNow } from "@/parts/now";
import { Progress } from "@/parts/Progress";
import { StepActs } from "@/parts/StepActs";
import { StateMark, stateText } from "@/parts/State";
import { duration, firstLine, gist } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { notesOf } from "./note";
import type { StageRow } from "./rows";

const STALL_MS = 30_000; // ready for so long: nobody takes it
const IDLE_MS = 120_000; // running, and what it tells has not moved for so long
const LOOK_MS = 2_000; // progress is told once a second, and no event says so

type Fold = (id: string, unfolded: boolean) => void;

const INKS = { muted: "text-muted", wait: "text-wait", bad: "text-bad" } as const;
const LINE = "flex h-full items-center gap-2 pr-2";

export const StageLine = memo(function StageLine({ row, fold }: { row: StageRow; fold: Fold }) {
  const { stage, done, total } = row;
  return (
    <div className={`${LINE} bg-raised/60 pl-1`}>
      <Chevron shown={total > 0} unfolded={row.unfolded} onClick={() => fold(row.id, !row.unfolded)} />
      <StateMark state={stage.status} />
      <span className="truncate font-semibold">{stage.name}</span>
      <span className="text-muted">{stateText(stage.status)}</span>
      <span className="ml-auto text-muted tabular-nums">{t.tree.stageDone(done, total)}</span>
    </div>
  );
});

type StepProps = {
  task: string;
  step: Step;
  id: string;
  level: number;
  owned: number;
  unfolded: boolean;
  stages: readonly string[];
  fold: Fold;
};

export const StepLine = memo(function StepLine({ task, step, id, level, owned, unfolded, stages, fold }: StepProps) {
  const asks = step.state === "waiting" && step.waiting_for === "user";
  const quiet = step.state === "blocked" || step.state === "skipped";
  return (
    <div className={`group/line ${LINE}`} style={{ paddingLeft: `${(level - 1) * 18 + 4}px` }}>
      <Chevron shown={owned > 0 || step.attempt > 0} unfolded={unfolded} onClick={() => fold(id, !unfolded)} />
      <StateMark state={step.state} />
      <span className="sr-only">{stateText(step.state)}</span>
      <KindMark kind={step.kind} />
      <Link
        tabIndex={-1}
        to={asks ? approvalAddress(task, step.key) : stepAddress(task, step.key)}
        className={`max-w-[45%] shrink-0 truncate hover:underline ${quiet ? "text-muted" : ""}`}
        title={step.key}
      >
        {step.key}
      </Link>
      {step.items && step.kind === "for_each" ? (
        <Progress
          done={step.items.ended}
          total={step.items.total}
          ink={step.state === "completed" ? "ok" : step.state === "failed" ? "bad" : "run"}
        />
      ) : null}
      {step.state === "running" ? <Running task={task} step={step} /> : null}
      {step.state === "ready" ? <Ready dueAt={step.due_at} /> : null}
      <span className="min-w-0 flex-1 truncate">
        {notesOf(step, stages).map((note) => (
          <span key={note.text} className={`mr-3 ${INKS[note.ink]}`} title={note.text}>
            {note.text}
          </span>
        ))}
      </span>
      <span className="invisible group-hover/line:visible max-sm:hidden">
        <StepActs task={task} step={step} compact />
      </span>
      <StepTime step={step} />
    </div>
  );
});

function StepTime({ step }: { step: Step }) {
  if (GIVES_OUT.has(step.kind)) return null;
  const { began_at: began, ended_at: ended, state } = step;
  const over = OVER.has(state);
  if (began === null || (!over && state !== "running" && state !== "waiting") || (over && ended === null)) return null;
  return (
    <span className="w-16 shrink-0 text-right text-muted">
      <Took from={began} to={over ? ended : null} />
    </span>
  );
}

/** How far it is, asked for as long as somebody sees it run; and a mark when that has not moved for a while. */
function Running({ task, step }: { task: string; step: Step }) {
  const live = useLiveState().word === "live";
  const detail = useQuery({ ...stepQuery(task, step.key), refetchInterval: live && LOOK_MS });
  const told = (detail.data?.state === "running" ? detail.data.progress : null) ?? step.progress;
  const seen = useRef({ told: "", at: Date.now() });
  const now = useNow();
  const words = told === null ? "" : `${told.done}/${told.total} ${told.text}`;
  if (seen.current.told !== words) seen.current = { told: words, at: Date.now() };
  if (told === null) return null;
  const idle = now - seen.current.at;
  return (
    <>
      {told.total > 0 ? (
        <Progress done={told.done} total={told.total} label={`${t.parts.progress}: ${step.key}`} />
      ) : null}
      {told.text && told.text !== `${told.done}/${told.total}` ? (
        <span className="truncate text-muted max-sm:hidden">{firstLine(told.text)}</span>
      ) : null}
      {idle > IDLE_MS ? <Stall text={t.tree.idle(duration(idle, true))} /> : null}
    </>
  );
}

function Ready({ dueAt }: { dueAt: number | null }) {
  const now = useNow();
  if (dueAt === null) return null;
  if (dueAt > now) {
    return (
      <span className="whitespace-nowrap text-muted">
        {t.tree.again} <Left until={dueAt} />
      </span>
    );
  }
  return now - dueAt > STALL_MS ? <Stall text={t.tree.queued(duration(now - dueAt, true))} /> : null;
}

/** It should move, and does not. */
function Stall({ text }: { text: string }) {
  return (
    <span className="inline-flex items-center gap-1 whitespace-nowrap text-wait" title={text}>
      <Hourglass size={13} aria-hidden />
      {text}
    </span>
  );
}

type AttemptProps = { task: string; step: string; attempt: Attempt; level: number };

export const AttemptLine = memo(function AttemptLine({ task, step, attempt, level }: AttemptProps) {
  const outcome = attempt.outcome ?? "running";
  const reason = gist(attempt.reason);
  return (
    <div className={LINE} style={{ paddingLeft: `${(level - 1) * 18 + 26}px` }}>
      <StateMark state={MARKS[outcome] ?? outcome} />
      <Link tabIndex={-1} to={`${stepAddress(task, step)}?attempt=${attempt.attempt}`} className="hover:underline">
        {t.tree.attempt(attempt.attempt)}
      </Link>
      <span className="text-muted">{worded(t.words.outcome, outcome)}</span>
      <span className="min-w-0 flex-1 truncate text-muted" title={reason}>
        {reason}
      </span>
      {attempt.worker === null ? null : (
        <span className="truncate text-muted max-sm:hidden">{t.tree.worker(attempt.worker)}</span>
      )}
      {attempt.began_at === null ? null : (
        <span className="w-16 shrink-0 text-right text-muted">
          <Took from={attempt.began_at} to={attempt.ended_at} />
        </span>
      )}
    </div>
  );
});

const MARKS: Readonly<Record<string, string>> = {
  delivered: "merging",
  released: "ready",
  parked: "waiting",
  asked: "waiting",
  expanded: "blocked",
};

type ChevronProps = { shown: boolean; unfolded: boolean; onClick: () => void };

function Chevron({ shown, unfolded, onClick }: ChevronProps) {
  if (!shown) return <span className="w-[16px] shrink-0" />;
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={unfolded ? t.tree.fold : t.tree.unfold}
      onClick={onClick}
      className="shrink-0 rounded text-muted hover:text-ink"
    >
      <ChevronRight size={16} aria-hidden className={unfolded ? "rotate-90" : ""} />
    </button>
  );
}
