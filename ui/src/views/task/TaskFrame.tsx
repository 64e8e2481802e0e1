/** A task: its head, which every view of it has, and the views. */
import { useQuery } from "@tanstack/react-query";
import { Navigate, NavLink, Outlet, useLocation } from "react-router";
import { treeQuery } from "@/api/tasks";
import { Asked } from "@/parts/Asked";
import { taskAddress } from "@/parts/addresses";
import { useStepParam, useTaskParam } from "@/parts/params";
import { t } from "@/texts/texts";
import { TaskHead } from "./TaskHead";

const TABS = ["", "graph", "timeline", "cost", "artifacts", "events", "trace"] as const;

export function TaskFrame() {
  const task = useTaskParam();
  const step = useStepParam();
  const { pathname, search } = useLocation();
  const tree = useQuery(treeQuery(task));
  if (tree.data && tree.data.id !== task) {
    const rest = pathname.split("/").slice(3).join("/"); // events name tasks by their ids
    return <Navigate to={taskAddress(tree.data.id, rest) + search} replace />;
  }
  return (
    <Asked query={tree}>
      {(shown) => (
        <>
          <TaskHead task={shown} compact={step !== ""} />
          <nav aria-label={t.task.views} className="mb-3 flex gap-1 overflow-x-auto border-b border-line">
            {TABS.map((tab) => (
              <NavLink
                key={tab}
                end={tab === ""}
                to={taskAddress(task, tab)}
                className="-mb-px border-b-2 border-transparent px-2.5 py-1.5 whitespace-nowrap text-muted hover:text-ink aria-[current=page]:border-accent aria-[current=page]:font-medium aria-[current=page]:text-ink"
              >
                {t.task.tabs[tab || "tree"]}
              </NavLink>
            ))}
          </nav>
          <Outlet />
        </>
      )}
    </Asked>
  );
}
