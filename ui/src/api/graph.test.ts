// @vitest-environment node
import { expect, test } from "vitest";
import type { Graph } from "./documents";
import { blockedBy } from "./graph";

const step = (key: string, stage = 1, state = "blocked") => ({ key, kind: "run", stage, state, owner: null });

test("a step blocks its dependents, however far, and the stages behind its own, but for what is over", () => {
  const graph: Graph = {
    task: "t",
    name: "t",
    stages: ["one", "two"],
    steps: [
      step("ask", 1, "waiting"),
      step("a"),
      step("b"),
      step("beside"),
      step("over", 1, "skipped"),
      step("later", 2),
    ],
    edges: [
      ["ask", "a"],
      ["a", "b"],
      ["ask", "over"],
    ],
    steps_left_out: 0,
  };
  expect(blockedBy(graph, "ask")).toBe(3);
  expect(blockedBy(graph, "b")).toBe(1);
  expect(blockedBy(graph, "unknown")).toBe(0);
});
