// @vitest-environment node
import { expect, test } from "vitest";
import { aStep, anAttempt, aTree } from "@/testing/samples";
import { type Row, rowsOf, stageId, stepId } from "./rows";

const names = (rows: readonly Row[]) => rows.map((row) => row.id);

const tree = aTree(
  [
    aStep("build", { state: "completed", attempt: 2 }),
    aStep("each", { kind: "for_each", state: "running" }),
    ...Array.from({ length: 20 }, (_, n) =>
      aStep(`each[${n}]`, { owner: "each", state: n < 5 ? "completed" : "ready" }),
    ),
    aStep("fix", { owner: "build", state: "completed" }),
    aStep("ship", { stage: 2 }),
  ],
  {
    stages: [
      { name: "make", status: "running" },
      { name: "ship", status: "upcoming" },
    ],
  },
);

test("steps stand in their stages, what belongs to a step below it, and many items are folded", () => {
  const rows = rowsOf(tree, {}, {});
  expect(names(rows)).toEqual(["stage 1", "step build", "step fix", "step each", "stage 2", "step ship"]);
  const each = rows[3];
  expect(each).toMatchObject({ owned: 20, unfolded: false });
});

test("what a person folds stays so, and attempts stand where one looks into a step", () => {
  const folds = { [stageId(2)]: false, [stepId("build")]: true, [stepId("each")]: true };
  const rows = rowsOf(tree, folds, { build: [anAttempt(), anAttempt({ attempt: 2 })] });
  expect(names(rows).slice(0, 5)).toEqual(["stage 1", "step build", "step build 1", "step build 2", "step fix"]);
  expect(rows).toHaveLength(5 + 1 + 20 + 1);
});
