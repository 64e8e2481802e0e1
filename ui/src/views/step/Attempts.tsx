/** The attempts of a step, and two of them side by side. */
import { useState } from "react";
import { Link } from "react-router";
import type { Attempt } from "@/api/documents";
import { Took } from "@/parts/Age";
import { Fact } from "@/parts/Fact";
import { plain } from "@/parts/log/ansi";
import { OutputLog } from "@/parts/log/OutputLog";
import { type Column, Table } from "@/parts/Table";
import { gist, instant } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { attemptAddress } from "./addresses";
import { OutcomeMark } from "./OutcomeMark";

type Props = { task: string; step: string; attempts: readonly Attempt[]; output: boolean };

/** `output`: such a step writes something. */
export function Attempts({ task, step, attempts, output }: Props) {
  const last = attempts.length - 1;
  const [pair, setPair] = useState<readonly [number, number]>([Math.max(last - 1, 0), last]);
  const columns: Column<Attempt>[] = [
    {
      key: "attempt",
      title: t.step.attempt,
      cell: ({ attempt }) => (
        <Link to={attemptAddress(task, step, attempt)} className="font-medium text-accent underline">
          {attempt}
        </Link>
      ),
    },
    { key: "outcome", title: t.step.outcome, cell: (one) => <OutcomeMark attempt={one} /> },
    {
      key: "began",
      title: t.step.began,
      cell: (one) => (one.began_at === null ? "" : instant(one.began_at)),
      wide: true,
    },
    {
      key: "took",
      title: t.step.took,
      cell: (one) => (one.began_at === null ? "" : <Took from={one.began_at} to={one.ended_at} />),
      right: true,
    },
    { key: "worker", title: t.step.worker, cell: (one) => <span className="break-all">{one.worker}</span>, wide: true },
    {
      key: "reason",
      title: t.step.reason,
      cell: (one) => <span className="break-words">{gist(plain(one.reason ?? ""))}</span>,
    },
  ];
  const [left, right] = [attempts[pair[0]], attempts[pair[1]]];
  return (
    <div className="flex flex-col gap-4">
      <Table label={t.step.attempts} columns={columns} rows={attempts} rowKey={(one) => String(one.attempt)} />
      {left === undefined || right === undefined || attempts.length < 2 ? null : (
        <section aria-label={t.step.compare} className="flex flex-col gap-2">
          <h2 className="text-base font-semibold">{t.step.compare}</h2>
          <div className="grid gap-3 lg:grid-cols-2">
            <Side
              task={task}
              step={step}
              attempts={attempts}
              at={pair[0]}
              output={output}
              label={t.step.left}
              choose={(at) => setPair([at, pair[1]])}
            />
            <Side
              task={task}
              step={step}
              attempts={attempts}
              at={pair[1]}
              output={output}
              label={t.step.right}
              choose={(at) => setPair([pair[0], at])}
            />
          </div>
        </section>
      )}
    </div>
  );
}

type SideProps = Props & { at: number; label: string; choose: (at: number) => void };

function Side({ task, step, attempts, at, output, label, choose }: SideProps) {
  const attempt = attempts[at];
  if (attempt === undefined) return null;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <select
        aria-label={label}
        value={at}
        onChange={(event) => choose(Number(event.target.value))}
        className="self-start rounded-md border border-line-strong bg-surface px-2 py-1.5 font-medium max-sm:text-base"
      >
        {attempts.map((one, index) => (
          <option key={one.attempt} value={index}>
            {t.tree.attempt(one.attempt)} · {worded(t.words.outcome, one.outcome ?? "running")}
          </option>
        ))}
      </select>
      <dl className="grid grid-cols-[6rem_1fr] gap-x-3 gap-y-0.5 rounded-lg border border-line bg-surface px-3 py-2">
        <Fact name={t.step.outcome}>
          <OutcomeMark attempt={attempt} />
        </Fact>
        <Fact name={t.step.began} className="tabular-nums">
          {attempt.began_at === null ? t.words.unknown : instant(attempt.began_at)}
        </Fact>
        <Fact name={t.step.ended} className="tabular-nums">
          {attempt.ended_at === null ? t.step.notYet : instant(attempt.ended_at)}
        </Fact>
        <Fact name={t.step.took}>
          {attempt.began_at === null ? t.words.unknown : <Took from={attempt.began_at} to={attempt.ended_at} />}
        </Fact>
        <Fact name={t.step.worker} className="min-w-0 break-all">
          {attempt.worker ?? t.words.unknown}
        </Fact>
        {attempt.runtime === null ? null : <Fact name={t.step.runtime}>{attempt.runtime}</Fact>}
        <Fact name={t.step.reason} className="max-h-40 min-w-0 overflow-auto break-words whitespace-pre-wrap" scrolls>
          {attempt.reason === null ? "–" : plain(attempt.reason)}
        </Fact>
      </dl>
      {output ? (
        <OutputLog
          task={task}
          step={step}
          attempt={attempt.attempt}
          live={attempt.ended_at === null}
          height="h-[26rem]"
          main={false}
        />
      ) : null}
    </div>
  );
}
