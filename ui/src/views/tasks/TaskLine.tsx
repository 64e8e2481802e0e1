/** One task of the list. */
import { memo } from "react";
import { Link } from "react-router";
import type { Task } from "@/api/documents";
import { Age } from "@/parts/Age";
import { approvalAddress, taskAddress } from "@/parts/addresses";
import { Progress } from "@/parts/Progress";
import { State } from "@/parts/State";
import { firstLine, money } from "@/texts/format";
import { t } from "@/texts/texts";

const CELL = "px-3 py-1.5 align-top";
const INKS: Readonly<Record<string, "ok" | "bad">> = { completed: "ok", failed: "bad", cancelled: "bad" };

export const TaskLine = memo(function TaskLine({ task }: { task: Task }) {
  const { asks, stage, cost_micros: cost } = task;
  return (
    <tr className="border-b border-line last:border-0 hover:bg-raised max-sm:flex max-sm:flex-wrap max-sm:items-center max-sm:py-1">
      <td className={`${CELL} max-w-96 max-sm:w-full`}>
        <Link data-row to={taskAddress(task.id)} className="font-medium hover:underline">
          {task.handle}
        </Link>
        {task.goal ? <div className="truncate text-muted">{firstLine(task.goal)}</div> : null}
      </td>
      <td className={CELL}>
        <State state={task.status} />
        {stage === null ? null : <div className="truncate pl-5 text-muted">{stage}</div>}
      </td>
      <td className={CELL}>
        <Progress
          done={task.percent}
          total={100}
          text={`${task.percent} %`}
          label={`${t.parts.progress}: ${task.handle}`}
          ink={INKS[task.status] ?? "run"}
        />
      </td>
      <td className={`${CELL} max-w-80 max-lg:hidden`}>
        {asks === null ? null : (
          <Link
            to={approvalAddress(task.id, asks.step)}
            className="block truncate text-wait hover:underline"
            title={asks.text}
          >
            {asks.who.length > 0 ? asks.who.join(", ") : t.words.anybody}: {asks.text}
          </Link>
        )}
      </td>
      <td className={`${CELL} text-right whitespace-nowrap tabular-nums max-lg:hidden`}>
        {cost > 0 ? money(cost) : <span className="text-muted">–</span>}
      </td>
      <td className={`${CELL} text-right whitespace-nowrap text-muted max-sm:ml-auto`}>
        <Age at={task.created_at} />
      </td>
    </tr>
  );
});
