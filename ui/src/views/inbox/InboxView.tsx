/** What waits for me, the oldest first; and what is under way. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { approvalsQuery } from "@/api/approvals";
import type { Approval, Task } from "@/api/documents";
import { tasksQuery } from "@/api/tasks";
import { Age } from "@/parts/Age";
import { Asked } from "@/parts/Asked";
import { approvalAddress, taskAddress } from "@/parts/addresses";
import { Empty } from "@/parts/Empty";
import { Progress } from "@/parts/Progress";
import { moveAmongRows } from "@/parts/rows";
import { State } from "@/parts/State";
import { Title } from "@/parts/Title";
import { t } from "@/texts/texts";
import { AskedCard } from "./AskedCard";

const UNDER_WAY_MAX = 10;

export function InboxView() {
  const mine = useQuery(approvalsQuery(true));
  const all = useQuery(approvalsQuery(false));
  const open = useInfiniteQuery(tasksQuery({ open: true }));
  const tasks = open.data?.pages.flatMap((page) => page.items) ?? [];
  const stopped = tasks.filter((task) => task.status === "waiting_budget");
  const others = othersOf(mine.data?.items ?? [], all.data?.items ?? []);
  return (
    <div className="flex max-w-4xl flex-col gap-6" onKeyDown={moveAmongRows}>
      <section aria-label={t.inbox.asks}>
        <Title text={t.inbox.title} />
        <Asked query={mine}>
          {({ items }) =>
            items.length === 0 && stopped.length === 0 ? (
              <Empty title={t.inbox.asksNone}>{t.inbox.asksNoneWhy}</Empty>
            ) : (
              <ul className="flex flex-col gap-3">
                {items.map((approval) => (
                  <AskedCard key={`${approval.task} ${approval.step}`} approval={approval} />
                ))}
                {stopped.map((task) => (
                  <Stopped key={task.id} task={task} />
                ))}
              </ul>
            )
          }
        </Asked>
      </section>
      {others.length > 0 ? <Others approvals={others} /> : null}
      <UnderWay tasks={tasks.slice(0, UNDER_WAY_MAX)} known={open.data !== undefined} />
    </div>
  );
}

function othersOf(mine: readonly Approval[], all: readonly Approval[]): Approval[] {
  const known = new Set(mine.map((approval) => `${approval.task} ${approval.step}`));
  return all.filter((approval) => !known.has(`${approval.task} ${approval.step}`));
}

function Stopped({ task }: { task: Task }) {
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg border border-line bg-surface px-4 py-3">
      <State state={task.status} filled />
      <Link data-row to={taskAddress(task.id)} className="font-medium hover:underline">
        {task.handle}
      </Link>
      <span className="text-muted">{t.inbox.stopped}</span>
    </li>
  );
}

function Others({ approvals }: { approvals: readonly Approval[] }) {
  return (
    <section>
      <h2 className="mb-2 font-semibold">{t.inbox.others}</h2>
      <ul className="divide-y divide-line rounded-lg border border-line bg-surface">
        {approvals.map((approval) => (
          <li key={`${approval.task} ${approval.step}`} className="flex flex-wrap items-baseline gap-x-3 px-3 py-1.5">
            <Link data-row to={approvalAddress(approval.task, approval.step)} className="font-medium hover:underline">
              {approval.handle} · {approval.step}
            </Link>
            <span className="min-w-0 flex-1 truncate">{approval.text}</span>
            <span className="text-muted">{t.inbox.who(approval.who.join(", "))}</span>
            {approval.since === null ? null : (
              <span className="text-muted">
                <Age at={approval.since} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function UnderWay({ tasks, known }: { tasks: readonly Task[]; known: boolean }) {
  return (
    <section>
      <h2 className="mb-2 font-semibold">{t.inbox.underWay}</h2>
      {known && tasks.length === 0 ? <p className="text-muted">{t.inbox.underWayNone}</p> : null}
      {tasks.length === 0 ? null : (
        <ul className="divide-y divide-line rounded-lg border border-line bg-surface">
          {tasks.map((task) => (
            <li key={task.id} className="flex flex-wrap items-center gap-x-4 gap-y-0.5 px-3 py-1.5">
              <Link
                data-row
                to={taskAddress(task.id)}
                className="min-w-0 flex-1 truncate font-medium hover:underline max-sm:basis-full"
              >
                {task.handle}
              </Link>
              <State state={task.status} />
              <Progress done={task.percent} total={100} text={`${task.percent} %`} />
              <span className="w-16 text-right text-muted max-sm:hidden">
                <Age at={task.created_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
