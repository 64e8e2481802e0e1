/** A run of an agent: its turns, what they cost, and from where another attempt would go on. */
import { useQuery } from "@tanstack/react-query";
import { transcriptQuery } from "@/api/artifacts";
import type { Attempt, StepDetail } from "@/api/documents";
import { traceQuery } from "@/api/trace";
import { turnsQuery } from "@/api/turns";
import { Asked } from "@/parts/Asked";
import { CopyText } from "@/parts/CopyText";
import { Empty } from "@/parts/Empty";
import { Figure } from "@/parts/Figure";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { StateMark } from "@/parts/State";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { type Run, runOfRows, runOfSpans, runOfTranscript, sumOf } from "./run";
import { exactMoney, ToldCard, TurnCard } from "./TurnCard";

const EVERY_MS = 2_000; // no event tells of a turn
/** Outcomes that keep a transcript; of a failed attempt that was tried again it is not kept. */
const KEEPS: ReadonlySet<string> = new Set(["completed", "delivered", "failed"]);
/** The attempt is over, and its run is not. */
const GOES_ON: ReadonlySet<string> = new Set(["parked", "expanded", "released", "lost"]);

type Props = { task: string; step: StepDetail; attempt: Attempt };

export function AgentRun({ task, step, attempt }: Props) {
  const kept = KEEPS.has(attempt.outcome ?? "");
  const transcript = useQuery({ ...transcriptQuery(task, step.key, attempt.attempt), enabled: kept });
  if (kept && transcript.data === undefined) {
    return transcript.error === null ? (
      <Loading />
    ) : (
      <ProblemNote error={transcript.error} onRetry={() => void transcript.refetch()} />
    );
  }
  if (typeof transcript.data === "string") return <Turns run={runOfTranscript(transcript.data)} />;
  return <SoFar task={task} step={step} attempt={attempt} />;
}

/** Of a run that goes on; one that is not the step's newest is told by its spans only. */
function SoFar({ task, step, attempt }: Props) {
  const running = attempt.ended_at === null;
  const turns = useQuery({ ...turnsQuery(task, step.key, step.run), refetchInterval: running ? EVERY_MS : false });
  return (
    <Asked query={turns}>
      {(rows) =>
        running || rows.some((row) => row.attempt === attempt.attempt) ? (
          <Turns
            run={runOfRows(rows.filter((row) => row.attempt <= attempt.attempt))}
            hint={GOES_ON.has(attempt.outcome ?? "") ? t.step.goesOn : undefined}
          />
        ) : (
          <Spans task={task} step={step} attempt={attempt} />
        )
      }
    </Asked>
  );
}

function Spans({ task, step, attempt }: Props) {
  const trace = useQuery(traceQuery(task));
  return (
    <Asked query={trace}>
      {({ spans }) => <Turns run={runOfSpans(spans, step.key, attempt.attempt)} hint={t.step.noTranscript} />}
    </Asked>
  );
}

function Turns({ run, hint }: { run: Run; hint?: string }) {
  const sum = sumOf(run);
  let last = 0;
  const numbers = run.entries.map((entry) => (entry.kind === "turn" ? ++last : last));
  if (run.entries.length === 0 && run.asking === null) return <Empty title={t.step.noTurns}>{hint}</Empty>;
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
      {run.asking === null ? null : (
        <p className="flex items-center gap-1.5 text-muted">
          <StateMark state="running" />
          {t.step.asking(run.asking)}
        </p>
      )}
    </div>
  );
}
