/** The live tree: only the rows in sight are there, and only those whose step has changed are drawn anew. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useNavigate } from "react-router";
import type { Attempt, Step, TaskTree } from "@/api/documents";
import { attemptsQuery } from "@/api/steps";
import { treeQuery } from "@/api/tasks";
import { stepAddress } from "@/parts/addresses";
import { useTaskParam } from "@/parts/params";
import { RowTree } from "@/parts/RowTree";
import { t } from "@/texts/texts";
import { AttemptLine, StageLine, StepLine } from "./lines";
import { type Folds, levelOf, opens, type Row, rowsOf, stepId } from "./rows";

const ROW_PX = 30;

export function TreeView() {
  const task = useTaskParam();
  const tree = useQuery(treeQuery(task));
  return tree.data ? <Tree task={tree.data} /> : null;
}

function Tree({ task }: { task: TaskTree }) {
  const [folds, setFolds] = useState<Folds>({});
  const attempts = useAttempts(task, folds);
  const rows = useMemo(() => rowsOf(task, folds, attempts), [task, folds, attempts]);
  const stages = useMemo(() => task.stages.map((stage) => stage.name), [task.stages]);
  const navigate = useNavigate();

  const fold = useCallback(
    (id: string, unfolded: boolean) => setFolds((before) => ({ ...before, [id]: unfolded })),
    [],
  );
  const open = (row: Row) => {
    if (row.kind === "stage") fold(row.id, !row.unfolded);
    else
      void navigate(
        stepAddress(task.id, row.step.key) + (row.kind === "attempt" ? `?attempt=${row.attempt.attempt}` : ""),
      );
  };
  const draw = (row: Row) => {
    switch (row.kind) {
      case "stage":
        return <StageLine row={row} fold={fold} />;
      case "step":
        return (
          <StepLine
            task={task.id}
            stages={stages}
            fold={fold}
            step={row.step}
            id={row.id}
            level={row.level}
            owned={row.owned}
            unfolded={row.unfolded}
          />
        );
      case "attempt":
        return <AttemptLine task={task.id} step={row.step.key} attempt={row.attempt} level={row.level} />;
    }
  };

  return (
    <>
      <div className="rounded-lg border border-line bg-surface">
        <RowTree
          label={t.tree.label}
          rows={rows}
          idOf={idOf}
          rowPx={ROW_PX}
          draw={draw}
          onOpen={open}
          levelOf={levelOf}
          unfolded={unfolded}
          onFold={(row, unfold) => fold(row.id, unfold)}
        />
      </div>
      {task.steps_left_out > 0 ? <p className="mt-2 text-muted">{t.task.leftOut(task.steps_left_out)}</p> : null}
    </>
  );
}

function idOf(row: Row): string {
  return row.id;
}

function unfolded(row: Row): boolean | undefined {
  return row.kind !== "attempt" && opens(row) ? row.unfolded : undefined;
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
