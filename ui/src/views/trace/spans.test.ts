import { expect, test } from "vitest";
import type { Span } from "@/api/documents";
import { drawable, gapOf, rowsOf, treeOf, wholeOf } from "./spans";

function span(id: string, parent: string | null, kind: string, from: number, to: number | null): Span {
  return {
    span_id: id,
    parent_id: parent,
    kind,
    name: id,
    step: null,
    attempt: null,
    started_at: from,
    ended_at: to,
    status: "ok",
    attributes: {},
  };
}

const SPANS = [
  span("task", null, "task", 0, null),
  span("stage", "task", "stage", 0, 90),
  span("step", "stage", "step", 10, 80),
  span("lost", "gone", "wait", 12, 14),
  span("first", "step", "attempt", 20, 40),
  span("turn", "first", "turn", 25, 30),
  span("second", "step", "attempt", 50, 80),
];

test("spans stand under their parents, attempts folded, and what has lost its parent under the task", () => {
  const tree = treeOf(SPANS);
  expect(rowsOf(tree, {}).map((row) => `${row.level} ${row.id}`)).toEqual([
    "1 task",
    "2 stage",
    "3 step",
    "4 first",
    "4 second",
    "2 lost",
  ]);
  expect(rowsOf(tree, { first: true, stage: true })[4]).toMatchObject({ id: "turn", level: 5, unfolded: undefined });
  expect(rowsOf(tree, { task: false })).toHaveLength(1);
});

test("a gap is when nothing below a span was worked on", () => {
  const rows = rowsOf(treeOf(SPANS), {});
  expect(gapOf(rows[2] as never, 100)).toBe(70 - 5 - 30);
  expect(gapOf(rows[3] as never, 100)).toBe(15);
  expect(gapOf(rows[0] as never, 100)).toBe(100 - 5 - 30);
  expect(gapOf(rows[4] as never, 100)).toBeNull();
  expect(wholeOf(SPANS, 100)).toEqual({ from: 0, to: 100 });
});

test("pieces that could not be told apart are drawn as one", () => {
  expect(
    drawable(
      [
        { from: 0, to: 10 },
        { from: 11, to: 20 },
        { from: 40, to: null },
      ],
      5,
      60,
    ),
  ).toEqual([
    { from: 0, to: 20 },
    { from: 40, to: 60 },
  ]);
});
