/** Documents for tests: whole, with what a test is about put in. */
import type { Approval, Attempt, JournalEvent, Step, Task, TaskTree } from "@/api/documents";

export const TASK = "019b76da-a800-7000-8000-000000000001";
export const AT = 1_767_225_600_000;

export function aTask(more: Partial<Task> = {}): Task {
  return {
    id: TASK,
    handle: "shop-12",
    name: "shop",
    goal: "Move the shop to the new library",
    status: "running",
    percent: 62,
    stage: "build",
    cost_micros: 1_230_000,
    tokens: 45_000,
    asks: null,
    created_at: AT,
    ended_at: null,
    created_by: "ann",
    ...more,
  };
}

export function aStep(key: string, more: Partial<Step> = {}): Step {
  return {
    key,
    kind: "run",
    stage: 1,
    state: "blocked",
    owner: null,
    attempt: 0,
    taken_by: null,
    run: 0,
    rounds: 0,
    began_at: null,
    ended_at: null,
    due_at: null,
    reason: null,
    because: null,
    benign: false,
    tolerated: false,
    waived: false,
    waiting_for: null,
    question: null,
    ask: null,
    commit: null,
    result: null,
    items: null,
    progress: null,
    ...more,
  };
}

export function aTree(steps: Step[], more: Partial<TaskTree> = {}): TaskTree {
  const stages = more.stages ?? [{ name: "build", status: "running" }];
  const over = steps.filter((step) => ["completed", "failed", "cancelled", "skipped"].includes(step.state));
  return {
    ...aTask(),
    state: "active",
    workspace: null,
    base: null,
    head: null,
    cost_limit_micros: null,
    tokens_limit: null,
    stages,
    counts: { steps: steps.length + stages.length, open: steps.length - over.length + stages.length, gates: 0 },
    steps,
    steps_left_out: 0,
    ...more,
  };
}

export function anApproval(more: Partial<Approval> = {}): Approval {
  return {
    task: TASK,
    handle: "shop-12",
    step: "review",
    ask: 1,
    version: "1.5d41402abc4b2a76",
    kind: "approval",
    text: "Does this look right?",
    who: [],
    answers: ["approve", "reject", "edit", "respond"],
    since: AT,
    expires_at: null,
    question: { kind: "approval", show: { diff: { base: "a", head: "b", files: 3, insertions: 40, deletions: 7 } } },
    ...more,
  };
}

export function anAttempt(more: Partial<Attempt> = {}): Attempt {
  return {
    attempt: 1,
    worker: "host-1",
    runtime: null,
    began_at: AT,
    ended_at: AT + 5_000,
    outcome: "completed",
    reason: null,
    ...more,
  };
}

export function anEvent(type: string, data: Record<string, unknown> = {}, seq = 1): JournalEvent {
  return {
    specversion: "1.0",
    id: `${TASK}/${seq}`,
    source: `/tasks/${TASK}`,
    type,
    time: new Date(AT + seq * 1_000).toISOString(),
    seq,
    actor: null,
    data,
  };
}
