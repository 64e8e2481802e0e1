import { expect, test } from "vitest";
import type { Span } from "@/api/documents";
import { aStep, aTree } from "@/testing/samples";
import { lanesIn, lanesOf } from "./lanes";
import { partition, totalsOf, visible, workOf } from "./partition";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

function span(kind: string, step: string, from: number, to: number | null, more: Partial<Span> = {}): Span {
  return {
    span_id: `${kind} ${step} ${from}`,
    parent_id: null,
    kind,
    name: `${kind} ${step}`,
    step,
    attempt: kind === "attempt" ? 1 : null,
    started_at: from,
    ended_at: to,
    status: "ok",
    attributes: {},
    ...more,
  };
}

test("a task of four hours with ten minutes of work is told as such", () => {
  const tree = aTree([aStep("build", { state: "completed" }), aStep("review", { kind: "approval", state: "waiting" })]);
  const lanes = lanesOf(tree, [
    span("attempt", "build", 0, 10 * MINUTE),
    span("wait", "review", 10 * MINUTE, null, { attributes: { "longtask.waiting_for": "user" } }),
  ]);
  const totals = totalsOf(partition(lanes, 0, 4 * HOUR));
  expect(totals).toEqual({ working: 10 * MINUTE, waiting: 4 * HOUR - 10 * MINUTE, merging: 0, queued: 0, idle: 0 });
});

test("each moment counts once, for the most that goes on in it", () => {
  const tree = aTree([aStep("a"), aStep("b"), aStep("c", { state: "ready", due_at: 70 })]);
  const lanes = lanesOf(tree, [
    span("attempt", "a", 10, 30, { attributes: { "longtask.queued_ms": 10 } }),
    span("attempt", "b", 20, 40),
    span("wait", "a", 30, 50, { attributes: { "longtask.waiting_for": "merge" } }),
    span("wait", "b", 40, 60, { attributes: { "longtask.waiting_for": "user" } }),
  ]);
  const moments = partition(lanes, 0, 80);
  expect(moments).toEqual([
    { kind: "queued", from: 0, to: 10 },
    { kind: "working", from: 10, to: 40 },
    { kind: "merging", from: 40, to: 50 },
    { kind: "waiting", from: 50, to: 60 },
    { kind: "idle", from: 60, to: 70 },
    { kind: "queued", from: 70, to: 80 },
  ]);
  expect(workOf(lanes, 80)).toBe(40);
  expect(visible(moments, 15).map((moment) => moment.kind)).toEqual(["queued", "working"]);
});

test("lanes stand in their stages, and only those of steps that have begun", () => {
  const tree = aTree([aStep("a"), aStep("later", { stage: 2 }), aStep("z", { stage: 2 })], {
    stages: [
      { name: "one", status: "running" },
      { name: "two", status: "ahead" },
    ],
  });
  const lanes = lanesOf(tree, [span("attempt", "z", 5, null), span("attempt", "a", 1, 4), span("turn", "a", 2, 3)]);
  expect(lanes.map((lane) => lane.id)).toEqual(["stage 1", "step a", "stage 2", "step z"]);
  expect(lanesIn(lanes, { from: 2, to: 3 }, 9).map((lane) => lane.id)).toEqual(["stage 1", "step a"]);
  expect(lanes[2]).toMatchObject({ reach: { from: 5, to: null } });
});
