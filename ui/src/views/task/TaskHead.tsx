/** How a task stands: its state, how far it is, what it waits for, what it has cost, and what can be done. */
import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { Link } from "react-router";
import type { Reason, TaskTree } from "@/api/documents";
import { hasEnded, stepsDone, whyQuery } from "@/api/tasks";
import { Age, Took } from "@/parts/Age";
import { approvalAddress, stepAddress, taskAddress } from "@/parts/addresses";
import { Figure } from "@/parts/Figure";
import { Progress } from "@/parts/Progress";
import { State } from "@/parts/State";
import { useTitle } from "@/parts/Title";
import { count, firstLine, money } from "@/texts/format";
import { t } from "@/texts/texts";
import { TaskActs } from "./TaskActs";

const REASONS_MAX = 3;
const INKS: Readonly<Record<string, "ok" | "bad">> = { completed: "ok", failed: "bad", cancelled: "bad" };

/** `compact`: above a step, which is what one looks at. */
export function TaskHead({ task, compact }: { task: TaskTree; compact: boolean }) {
  useTitle(task.handle);
  const { done, total } = stepsDone(task);
  const heading = compact ? (
    <Link to={taskAddress(task.id)} className="font-semibold hover:underline">
      {task.handle}
    </Link>
  ) : (
    <h1 className="text-xl font-semibold">{task.handle}</h1>
  );
  return (
    <header className="mb-2 flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        {heading}
        <span aria-live="polite">
          <State state={task.status} filled />
        </span>
        <Progress done={done} total={total} label={t.task.progress} ink={INKS[task.status] ?? "run"} />
        {compact ? null : (
          <div className="ml-auto flex gap-2">
            <TaskActs task={task} />
          </div>
        )}
      </div>
      {compact ? null : (
        <>
          {task.goal ? <p className="max-w-prose text-muted">{firstLine(task.goal)}</p> : null}
          {task.forked_from ? (
            <Link to={taskAddress(task.forked_from.task)} className="w-fit text-muted underline">
              {t.foreseen.from(task.forked_from.step)}
            </Link>
          ) : null}
          <Figures task={task} />
          {hasEnded(task.status) && task.status !== "failed" ? null : <Waits task={task} />}
        </>
      )}
    </header>
  );
}

function Figures({ task }: { task: TaskTree }) {
  const { cost_limit_micros: costLimit, tokens_limit: tokensLimit } = task;
  const cost = money(task.cost_micros);
  const tokens = t.task.tokens(task.tokens);
  const spends = task.cost_micros > 0 || task.tokens > 0 || costLimit !== null || tokensLimit !== null;
  return (
    <dl className="flex flex-wrap gap-x-6 gap-y-1">
      <Figure name={task.ended_at === null ? t.task.elapsed : t.task.took}>
        <Took from={task.created_at} to={task.ended_at} />
      </Figure>
      {spends ? (
        <Figure name={t.task.spent}>
          {costLimit === null ? cost : t.task.ofLimit(cost, money(costLimit))}
          {", "}
          {tokensLimit === null ? tokens : t.task.ofLimit(tokens, count(tokensLimit))}
        </Figure>
      ) : null}
      {task.parent && task.parent_step ? (
        <Figure name={t.task.parent}>
          <Link to={stepAddress(task.parent, task.parent_step)} className="hover:underline">
            {task.parent_step}
          </Link>
        </Figure>
      ) : null}
      <Figure name={t.task.by}>{task.created_by}</Figure>
    </dl>
  );
}

/** What only somebody else can move: people, workers, limits.  Of what runs by itself the tree tells. */
function Waits({ task }: { task: TaskTree }) {
  const why = useQuery(whyQuery(task.id));
  const asking = new Set(task.steps.filter((step) => step.waiting_for === "user").map((step) => step.key));
  const waiting = task.status !== "running" && task.status !== "queued";
  const found = (why.data?.items ?? []).filter((reason) => waiting || reason.step === null || asking.has(reason.step));
  if (found.length === 0) return null;
  return (
    <ul aria-label={t.task.waits} className="flex flex-col gap-1">
      {found.slice(0, REASONS_MAX).map((reason) => (
        <Waiting
          key={`${reason.step} ${reason.what}`}
          task={task.id}
          reason={reason}
          asks={reason.step !== null && asking.has(reason.step)}
          bad={task.status === "failed"}
        />
      ))}
      {found.length > REASONS_MAX ? <li className="text-muted">… {count(found.length - REASONS_MAX)}</li> : null}
    </ul>
  );
}

function Waiting({ task, reason, asks, bad }: { task: string; reason: Reason; asks: boolean; bad: boolean }) {
  return (
    <li className={`flex items-baseline gap-2 rounded-md px-2.5 py-1 ${bad ? "bg-bad-soft" : "bg-wait-soft"}`}>
      <TriangleAlert size={14} aria-hidden className={`shrink-0 self-center ${bad ? "text-bad" : "text-wait"}`} />
      <span className="min-w-0 break-words">{reason.what}</span>
      {reason.since === null ? null : (
        <span className="whitespace-nowrap text-muted">
          <Age at={reason.since} />
        </span>
      )}
      {reason.step === null ? null : (
        <Link
          to={asks ? approvalAddress(task, reason.step) : stepAddress(task, reason.step)}
          className="ml-auto font-medium whitespace-nowrap text-accent underline"
        >
          {t.inbox.open}
          <span className="sr-only">: {reason.step}</span>
        </Link>
      )}
    </li>
  );
}
