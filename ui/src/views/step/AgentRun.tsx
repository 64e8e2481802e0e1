/** A run of an agent: its turns, what they cost, and from where another attempt would go on. */
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { transcriptQuery } from "@/api/artifacts";
import type { Attempt } from "@/api/documents";
import { traceQuery } from "@/api/trace";
import { Asked } from "@/parts/Asked";
import { CopyText } from "@/parts/CopyText";
import { Empty } from "@/parts/Empty";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { type Run, runOfSpans, runOfTranscript, sumOf } from "./run";
import { exactMoney, ToldCard, TurnCard } from "./TurnCard";

const SPANS_EVERY_MS = 4_000; // no event tells of a turn
/** Outcomes that keep a transcript; of a failed attempt that was tried again it is not kept. */
const KEEPS: ReadonlySet<string> = new Set(["completed", "delivered", "failed"]);
/** The attempt is over, and its run is not. */
const GOES_ON: ReadonlySet<string> = new Set(["parked", "expanded", "released", "lost"]);

type Props = { task: string; step: string; attempt: Attempt };

export function AgentRun({ task, step, attempt }: Props) {
  const kept = KEEPS.has(attempt.outcome ?? "");
  const transcript = useQuery({ ...transcriptQuery(task, step, attempt.attempt), enabled: kept });
  if (kept && transcript.data === undefined) {
    return transcript.error === null ? (
      <Loading />
    ) : (
      <ProblemNote error={transcript.error} onRetry={() => void transcript.refetch()} />
    );
  }
  if (typeof transcript.data === "string") return <Turns run={runOfTranscript(transcript.data)} />;
  return <Spans task={task} step={step} attempt={attempt} />;
}

/** Of a run that goes on, or has left no transcript. */
function Spans({ task, step, attempt }: Props) {
  const running = attempt.ended_at === null;
  const trace = useQuery({ ...traceQuery(task), refetchInterval: running ? SPANS_EVERY_MS : false });
  return (
    <Asked query={trace}>
      {({ spans }) => <Turns run={runOfSpans(spans, step, attempt.attempt)} hint={hintOf(attempt)} />}
    </Asked>
  );
}

/** Why there are no words. */
function hintOf({ outcome }: Attempt): string {
  if (outcome === null) return t.step.wordless;
  return GOES_ON.has(outcome) ? t.step.goesOn : t.step.noTranscript;
}

function Turns({ run, hint }: { run: Run; hint?: string }) {
  const sum = sumOf(run);
  let last = 0;
  const numbers = run.entries.map((entry) => (entry.kind === "turn" ? ++last : last));
  if (run.entries.length === 0) return <Empty title={t.step.noTurns}>{hint}</Empty>;
  return (
    <div className="flex flex-col gap-3">
      <dl className="flex flex-wrap gap-x-6 gap-y-1">
        <Figure name={t.step.turns}>{count(sum.turns)}</Figure>
        <Figure name={t.step.uses}>{count(sum.uses)}</Figure>
        <Figure name={t.step.tokens}>
          {t.step.inOut(sum.tokensIn, sum.tokensOut)}
          {sum.partial ? ` ${t.step.partial}` : ""}
        </Figure>
        <Figure name={t.step.cost}>
          {sum.micros === null ? t.step.noPrice : exactMoney(sum.micros)}
          {sum.micros !== null && sum.unpriced ? ` ${t.step.unpriced}` : ""}
        </Figure>
        {run.checkpoint === null ? null : (
          <Figure name={t.step.checkpoint}>
            {t.step.afterCall(run.checkpoint.n)} <CopyText text={run.checkpoint.tree.slice(0, 12)} />
          </Figure>
        )}
      </dl>
      {run.note === null ? null : <p className="text-wait">{run.note}</p>}
      {hint === undefined ? null : <p className="text-muted">{hint}</p>}
      <ol className="flex flex-col gap-2">
        {run.entries.map((entry, index) => (
          <li key={entry.n} className="[content-visibility:auto] [contain-intrinsic-size:auto_4rem]">
            {entry.kind === "told" ? <ToldCard told={entry} /> : <TurnCard turn={entry} number={numbers[index] ?? 0} />}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Figure({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex items-baseline gap-1.5">
      <dt className="text-muted">{name}</dt>
      <dd className="tabular-nums">{children}</dd>
    </div>
  );
}
