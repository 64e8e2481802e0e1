/** A step: how it stands, why it waits, what it writes and has changed, and its attempts. */
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { type Attempt, GIVES_OUT, type StepDetail, type TaskTree } from "@/api/documents";
import { attemptsQuery, stepQuery } from "@/api/steps";
import { treeQuery } from "@/api/tasks";
import { Took } from "@/parts/Age";
import { Asked } from "@/parts/Asked";
import { stepAddress } from "@/parts/addresses";
import { KindMark } from "@/parts/KindMark";
import { Loading } from "@/parts/Loading";
import { OutputLog } from "@/parts/log/OutputLog";
import { Progress } from "@/parts/Progress";
import { useStepParam, useTaskParam } from "@/parts/params";
import { State } from "@/parts/State";
import { StepActs } from "@/parts/StepActs";
import { useTitle } from "@/parts/Title";
import { t, worded } from "@/texts/texts";
import { AgentRun } from "./AgentRun";
import { Attempts } from "./Attempts";
import { type Part, partAddress, partsOf, writes } from "./addresses";
import { Changed } from "./Changed";
import { Details } from "./Details";
import { HandActs } from "./hands/HandActs";
import { Taken } from "./hands/Taken";
import { Why } from "./Why";

const PROGRESS_EVERY_MS = 2_000; // no event tells of it

export function StepView() {
  const task = useTaskParam();
  const key = useStepParam();
  useTitle(key);
  const tree = useQuery(treeQuery(task));
  const step = useQuery({
    ...stepQuery(task, key),
    refetchInterval: (query) => (query.state.data?.state === "running" ? PROGRESS_EVERY_MS : false),
  });
  return (
    <Asked query={step}>
      {(found) => (
        <div className="flex min-w-0 flex-col gap-3">
          <Head task={task} tree={tree.data} step={found} />
          {tree.data && found.taken_by ? <Taken task={tree.data} step={found} by={found.taken_by} /> : null}
          <Why task={task} step={found} />
          {tree.data === undefined ? <Loading /> : <Parts key={key} task={tree.data} step={found} />}
        </div>
      )}
    </Asked>
  );
}

function Head({ task, tree, step }: { task: string; tree: TaskTree | undefined; step: StepDetail }) {
  const { progress, taken_by: by } = step;
  return (
    <header className="flex flex-wrap items-center gap-x-3 gap-y-2">
      <h1 className="flex min-w-0 items-center gap-2 text-xl font-semibold">
        <KindMark kind={step.kind} />
        <span className="break-all">{step.key}</span>
      </h1>
      <span aria-live="polite">
        <State state={step.state} filled text={by ? t.hands.takenBy(by) : undefined} />
      </span>
      {progress === null || progress.total === 0 ? null : (
        <Progress
          done={progress.done}
          total={progress.total}
          ink={step.state === "running" ? "run" : step.state === "completed" ? "ok" : "wait"}
        />
      )}
      {step.began_at === null || GIVES_OUT.has(step.kind) ? null : (
        <span className="text-muted">
          <Took from={step.began_at} to={step.ended_at} />
        </span>
      )}
      {step.owner === null ? null : (
        <Link to={stepAddress(task, step.owner)} className="text-muted underline">
          {t.step.belongsTo(step.owner)}
        </Link>
      )}
      <span className="ml-auto flex flex-wrap gap-1">
        {tree === undefined ? null : <HandActs task={tree} step={step} />}
        <StepActs task={task} step={step} />
      </span>
    </header>
  );
}

function Parts({ task, step }: { task: TaskTree; step: StepDetail }) {
  const [search] = useSearchParams();
  const parts = partsOf(step);
  const chosen = parts.find((part) => part === search.get("view")) ?? parts[0] ?? "details";
  const attempts = useQuery({ ...attemptsQuery(task.id, step.key), enabled: step.attempt > 0 });
  const wanted = Number(search.get("attempt")) || null;
  const known = attempts.data?.items ?? [];
  const attempt = known.find((one) => one.attempt === wanted) ?? known.at(-1);
  return (
    <>
      <div className="flex flex-wrap items-end justify-between gap-x-4 gap-y-2 border-b border-line">
        <nav aria-label={t.step.parts} className="flex gap-1 overflow-x-auto">
          {parts.map((part) => (
            <Link
              key={part}
              to={partAddress(task.id, step.key, part, wanted)}
              replace
              aria-current={part === chosen ? "page" : undefined}
              className="border-b-2 border-transparent px-2.5 py-1.5 whitespace-nowrap text-muted hover:text-ink aria-[current=page]:border-accent aria-[current=page]:font-medium aria-[current=page]:text-ink"
            >
              {t.step.part[part]}
            </Link>
          ))}
        </nav>
        {known.length > 1 && (chosen === "run" || chosen === "output") ? (
          <AttemptChoice task={task.id} step={step.key} part={chosen} attempts={known} chosen={attempt} />
        ) : null}
      </div>
      {chosen === "details" ? (
        <Details task={task} step={step} />
      ) : chosen === "changes" ? (
        <Changed task={task.id} step={step} />
      ) : (
        <Asked query={attempts}>
          {({ items }) =>
            attempt === undefined ? (
              <p className="text-muted">{t.step.noAttempt}</p>
            ) : chosen === "attempts" ? (
              <Attempts task={task.id} step={step.key} attempts={items} output={writes(step)} />
            ) : chosen === "run" ? (
              <AgentRun key={attempt.attempt} task={task.id} step={step} attempt={attempt} />
            ) : (
              <OutputLog
                key={attempt.attempt}
                task={task.id}
                step={step.key}
                attempt={attempt.attempt}
                live={attempt.ended_at === null}
              />
            )
          }
        </Asked>
      )}
    </>
  );
}

type ChoiceProps = {
  task: string;
  step: string;
  part: Part;
  attempts: readonly Attempt[];
  chosen: Attempt | undefined;
};

function AttemptChoice({ task, step, part, attempts, chosen }: ChoiceProps) {
  const [, setSearch] = useSearchParams();
  return (
    <select
      aria-label={t.step.attempt}
      value={chosen?.attempt}
      onChange={(event) =>
        setSearch(new URLSearchParams(partAddress(task, step, part, Number(event.target.value)).split("?")[1]), {
          replace: true,
        })
      }
      className="mb-1 rounded-md border border-line-strong bg-surface px-2 py-1 max-sm:text-base"
    >
      {attempts.map((one) => (
        <option key={one.attempt} value={one.attempt}>
          {t.tree.attempt(one.attempt)} · {worded(t.words.outcome, one.outcome ?? "running")}
        </option>
      ))}
    </select>
  );
}
