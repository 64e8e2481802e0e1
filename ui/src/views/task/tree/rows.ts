/** A task's steps as the rows of a tree: stages, their steps, what belongs to a step, and the attempts of those looked into. */
import { type Attempt, OVER, type Stage, type Step, type TaskTree } from "@/api/documents";

export type StageRow = { kind: "stage"; id: string; stage: Stage; done: number; total: number; unfolded: boolean };
export type StepRow = {
  kind: "step";
  id: string;
  level: number;
  step: Step;
  /** Steps that belong to it. */
  owned: number;
  unfolded: boolean;
};
export type AttemptRow = { kind: "attempt"; id: string; level: number; step: Step; attempt: Attempt };
export type Row = StageRow | StepRow | AttemptRow;

/** By the id of a row: what a person has chosen. */
export type Folds = Readonly<Record<string, boolean>>;

const OWNED_SHOWN_MAX = 12; // more are folded until somebody looks

export function stageId(number: number): string {
  return `stage ${number}`;
}

export function stepId(key: string): string {
  return `step ${key}`;
}

/** `attempts`: of the steps that are looked into, by key. */
export function rowsOf(task: TaskTree, folds: Folds, attempts: Readonly<Record<string, readonly Attempt[]>>): Row[] {
  const stages: Step[][] = task.stages.map(() => []);
  const owned = new Map<string, Step[]>();
  for (const step of task.steps) {
    if (step.owner === null) stages[step.stage - 1]?.push(step);
    else {
      const others = owned.get(step.owner);
      if (others) others.push(step);
      else owned.set(step.owner, [step]);
    }
  }
  const rows: Row[] = [];

  function addStep(step: Step, level: number): void {
    const own = owned.get(step.key) ?? [];
    const id = stepId(step.key);
    const unfolded = folds[id] ?? (own.length > 0 && own.length <= OWNED_SHOWN_MAX);
    rows.push({ kind: "step", id, level, step, owned: own.length, unfolded });
    if (!unfolded) return;
    for (const attempt of attempts[step.key] ?? []) {
      rows.push({ kind: "attempt", id: `${id} ${attempt.attempt}`, level: level + 1, step, attempt });
    }
    for (const other of own) addStep(other, level + 1);
  }

  task.stages.forEach((stage, index) => {
    const own = stages[index] ?? [];
    const id = stageId(index + 1);
    const unfolded = folds[id] ?? true;
    rows.push({ kind: "stage", id, stage, done: own.filter(isOver).length, total: own.length, unfolded });
    if (unfolded) for (const step of own) addStep(step, 2);
  });
  return rows;
}

function isOver(step: Step): boolean {
  return OVER.has(step.state);
}

export function levelOf(row: Row): number {
  return row.kind === "stage" ? 1 : row.level;
}

/** Attempts can be looked into, or owned steps. */
export function opens(row: Row): boolean {
  return row.kind === "stage" ? row.total > 0 : row.kind === "step" && (row.owned > 0 || row.step.attempt > 0);
}
