/** What a task has cost, and where: by step, and by model. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { Link } from "react-router";
import type { TaskTree } from "@/api/documents";
import { treeQuery } from "@/api/tasks";
import { stepAddress } from "@/parts/addresses";
import { Button } from "@/parts/Button";
import { Empty } from "@/parts/Empty";
import { type Journal, useJournal } from "@/parts/journal";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { useTaskParam } from "@/parts/params";
import { StateMark } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";
import { count, money } from "@/texts/format";
import { t } from "@/texts/texts";
import { Limits } from "./Limits";
import { COUNTED, type ModelUsage, type StepUsage, sumUp, tokensOf, type Usage } from "./usage";

const SHOWN = 100; // the dearest; so many more with each click
const SMALL_MICROS = 100_000; // less is told more exactly

export function CostView() {
  const task = useTaskParam();
  const tree = useQuery(treeQuery(task));
  const journal = useJournal(task, COUNTED);
  const sums = useMemo(() => sumUp(journal.events), [journal.events]);
  if (!tree.data) return null;
  return (
    <div className="flex flex-col gap-6">
      {journal.error === null ? null : <ProblemNote error={journal.error} onRetry={journal.more} />}
      <Limits task={tree.data} />
      <Unpriced all={sums.all} models={sums.models} />
      {sums.all.calls > 0 ? (
        <>
          <ByModels rows={sums.models} />
          <BySteps task={tree.data} rows={sums.steps} />
        </>
      ) : null}
      <Reading journal={journal} empty={sums.all.calls === 0} />
    </div>
  );
}

/** The sums are of what has been read of the journal. */
function Reading({ journal, empty }: { journal: Journal; empty: boolean }) {
  if (journal.whole) return empty ? <Empty title={t.cost.none}>{t.cost.noneWhy}</Empty> : null;
  if (!journal.stopped) return journal.error === null ? <Loading /> : null;
  return (
    <p className="flex flex-wrap items-center gap-3 text-muted">
      {t.cost.stopped(journal.events.length)}
      <Button onClick={journal.more}>{t.events.more}</Button>
    </p>
  );
}

function Unpriced({ all, models }: { all: Usage; models: readonly ModelUsage[] }) {
  if (all.unpriced === 0) return null;
  const names = [...new Set(models.filter((model) => model.unpriced > 0).map(modelName))];
  return (
    <p className="flex items-baseline gap-2 rounded-md bg-wait-soft px-2.5 py-1.5">
      <span className="self-center">
        <StateMark state="waiting" />
      </span>
      {t.cost.unpriced(all.unpriced, all.unpricedTokens, names.join(", "))}
    </p>
  );
}

function modelName({ model }: ModelUsage): string {
  return model || t.words.unknown;
}

function BySteps({ task, rows }: { task: TaskTree; rows: readonly StepUsage[] }) {
  const [shown, setShown] = useState(SHOWN);
  const states = useMemo(() => new Map(task.steps.map((step) => [step.key, step.state])), [task.steps]);
  const columns: ReadonlyArray<Column<StepUsage>> = [
    {
      key: "step",
      title: t.cost.step,
      cell: ({ step }) => (
        <span className="inline-flex items-center gap-2">
          <StateMark state={states.get(step) ?? "blocked"} named />
          <Link to={stepAddress(task.id, step)} className="font-medium hover:underline">
            {step}
          </Link>
        </span>
      ),
    },
    { key: "attempts", title: t.cost.attempts, right: true, wide: true, cell: ({ attempts }) => count(attempts) },
    ...usageColumns<StepUsage>(rows),
  ];
  return (
    <Section title={t.cost.bySteps}>
      <Table label={t.cost.bySteps} columns={columns} rows={rows.slice(0, shown)} rowKey={(row) => row.step} />
      {rows.length > shown ? (
        <Button look="quiet" className="mt-2" onClick={() => setShown(shown + SHOWN)}>
          {t.cost.more(rows.length - shown)}
        </Button>
      ) : null}
    </Section>
  );
}

function ByModels({ rows }: { rows: readonly ModelUsage[] }) {
  const columns: ReadonlyArray<Column<ModelUsage>> = [
    { key: "model", title: t.cost.model, cell: (row) => <span className="font-medium">{modelName(row)}</span> },
    {
      key: "runtime",
      title: t.cost.runtime,
      wide: true,
      cell: ({ runtime }) => runtime || <span className="text-muted">{t.words.unknown}</span>,
    },
    ...usageColumns<ModelUsage>(rows),
  ];
  return (
    <Section title={t.cost.byModels}>
      <Table label={t.cost.byModels} columns={columns} rows={rows} rowKey={(row) => `${row.runtime} ${row.model}`} />
    </Section>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2 className="mb-2 font-semibold">{title}</h2>
      {children}
    </section>
  );
}

function usageColumns<U extends Usage>(rows: readonly U[]): Column<U>[] {
  const dearest = Math.max(...rows.map((row) => row.micros), 1);
  const most = Math.max(...rows.map(tokensOf), 1);
  return [
    { key: "calls", title: t.cost.calls, right: true, wide: true, cell: (row) => count(row.calls) },
    { key: "in", title: t.cost.tokensIn, right: true, wide: true, cell: (row) => count(row.tokensIn) },
    { key: "out", title: t.cost.tokensOut, right: true, wide: true, cell: (row) => count(row.tokensOut) },
    {
      key: "tokens",
      title: t.cost.tokens,
      right: true,
      cell: (row) => <Amount text={count(tokensOf(row))} share={tokensOf(row) / most} look="bg-line-strong" />,
    },
    {
      key: "cost",
      title: t.cost.cost,
      right: true,
      cell: (row) =>
        row.unpriced === row.calls ? (
          <span className="text-wait">{t.cost.noPrice}</span>
        ) : (
          <Amount
            text={row.unpriced > 0 ? t.cost.atLeast(exactly(row.micros)) : exactly(row.micros)}
            share={row.micros / dearest}
            look="bg-run"
          />
        ),
    },
  ];
}

function exactly(micros: number): string {
  return micros > 0 && micros < SMALL_MICROS ? t.cost.small(micros / 1e6) : money(micros);
}

function Amount({ text, share, look }: { text: string; share: number; look: string }) {
  return (
    <span className="inline-flex items-center justify-end gap-2">
      <span className="whitespace-nowrap">{text}</span>
      <span aria-hidden className="flex h-2 w-24 justify-start overflow-hidden rounded-sm bg-raised max-sm:w-12">
        <span className={`h-full min-w-px ${look}`} style={{ width: `${share * 100}%` }} />
      </span>
    </span>
  );
}
