/** The live tree: only the rows in sight are there, and only those whose step has changed are drawn anew. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useNavigate } from "react-router";
import type { Attempt, Step, TaskTree } from "@/api/documents";
import { attemptsQuery } from "@/api/steps";
import { treeQuery } from "@/api/tasks";
import { stepAddress } from "@/parts/addresses";
import { useTaskParam } from "@/parts/params";
import { t } from "@/texts/texts";
import { AttemptLine, StageLine, StepLine } from "./lines";
import { type Folds, levelOf, opens, parentOf, type Row, rowsOf, stepId } from "./rows";

const ROW_PX = 30;
const OVERSCAN = 12;

export function TreeView() {
  const task = useTaskParam();
  const tree = useQuery(treeQuery(task));
  return tree.data ? <Tree task={tree.data} /> : null;
}

function Tree({ task }: { task: TaskTree }) {
  const [folds, setFolds] = useState<Folds>({});
  const [active, setActive] = useState<string | null>(null);
  const attempts = useAttempts(task, folds);
  const rows = useMemo(() => rowsOf(task, folds, attempts), [task, folds, attempts]);
  const stages = useMemo(() => task.stages.map((stage) => stage.name), [task.stages]);
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(list.current?.offsetTop ?? 0), []);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  const navigate = useNavigate();
  const at = Math.max(
    rows.findIndex((row) => row.id === active),
    0,
  );
  const current = rows[at];

  const fold = useCallback(
    (id: string, unfolded: boolean) => setFolds((before) => ({ ...before, [id]: unfolded })),
    [],
  );

  const go = (to: number) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (row === undefined) return;
    setActive(row.id);
    virtual.scrollToIndex(rows.indexOf(row), { align: "auto" });
  };

  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget || !current) return;
    const acts: Record<string, () => void> = {
      j: () => go(at + 1),
      ArrowDown: () => go(at + 1),
      k: () => go(at - 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      l: () => unfold(current),
      ArrowRight: () => unfold(current),
      h: () => foldBack(current),
      ArrowLeft: () => foldBack(current),
      Enter: () => openRow(current),
    };
    const act = acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  };

  const unfold = (row: Row) => {
    if (row.kind === "attempt" || !opens(row)) return;
    if (row.unfolded) go(at + 1);
    else fold(row.id, true);
  };
  const foldBack = (row: Row) => {
    if (row.kind !== "attempt" && row.unfolded && opens(row)) fold(row.id, false);
    else go(parentOf(rows, at));
  };
  const openRow = (row: Row) => {
    if (row.kind === "stage") fold(row.id, !row.unfolded);
    else
      void navigate(
        stepAddress(task.id, row.step.key) + (row.kind === "attempt" ? `?attempt=${row.attempt.attempt}` : ""),
      );
  };

  return (
    <>
      <div
        ref={list}
        role="tree"
        tabIndex={0}
        aria-label={t.tree.label}
        aria-activedescendant={current ? domId(current.id) : undefined}
        onKeyDown={press}
        className="group relative rounded-lg border border-line bg-surface"
        style={{ height: virtual.getTotalSize() + 2 }}
      >
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          return (
            <div
              key={item.key}
              id={domId(row.id)}
              role="treeitem"
              aria-level={levelOf(row)}
              aria-expanded={row.kind !== "attempt" && opens(row) ? row.unfolded : undefined}
              aria-selected={row.id === current?.id}
              className="absolute inset-x-0 top-0 h-[30px] border-b border-line last:border-0 group-focus-visible:aria-selected:bg-accent-soft hover:bg-raised"
              style={{ transform: `translateY(${item.start - top}px)` }}
            >
              {row.kind === "stage" ? (
                <StageLine row={row} fold={fold} />
              ) : row.kind === "step" ? (
                <StepLine
                  task={task.id}
                  stages={stages}
                  fold={fold}
                  step={row.step}
                  id={row.id}
                  level={row.level}
                  owned={row.owned}
                  ownedDone={row.ownedDone}
                  unfolded={row.unfolded}
                />
              ) : (
                <AttemptLine task={task.id} step={row.step.key} attempt={row.attempt} level={row.level} />
              )}
            </div>
          );
        })}
      </div>
      {task.steps_left_out > 0 ? <p className="mt-2 text-muted">{t.task.leftOut(task.steps_left_out)}</p> : null}
    </>
  );
}

function domId(id: string): string {
  return `row-${encodeURIComponent(id)}`;
}

const NONE: Readonly<Record<string, readonly Attempt[]>> = {};

/** Of the steps that somebody has unfolded. */
function useAttempts(task: TaskTree, folds: Folds): Readonly<Record<string, readonly Attempt[]>> {
  const looked = useMemo(
    () =>
      task.steps.filter((step: Step) => step.attempt > 0 && folds[stepId(step.key)] === true).map((step) => step.key),
    [task.steps, folds],
  );
  const keys = looked.join("\n");
  return useQueries({
    queries: looked.map((key) => attemptsQuery(task.id, key)),
    combine: useCallback(
      (answers: { data?: { items: Attempt[] } }[]) => {
        if (keys === "") return NONE;
        return Object.fromEntries(keys.split("\n").map((key, index) => [key, answers[index]?.data?.items ?? []]));
      },
      [keys],
    ),
  });
}
