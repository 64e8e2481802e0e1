import { expect, test } from "vitest";
import { anEvent } from "@/testing/samples";
import { sumUp } from "./usage";

test("usage is summed up by step and by model, and what has no price is told apart", () => {
  const sums = sumUp([
    anEvent("step.started", { step: "a", attempt: 1, runtime: "builtin 1.0" }),
    anEvent("longtask.recorded", { step: "a", attempt: 1, tokens_in: 100, tokens_out: 10, micros: 500, model: "m" }),
    anEvent("longtask.recorded", { step: "a", attempt: 2, tokens_in: 1, tokens_out: 1, micros: 0, model: "m" }),
    anEvent("longtask.recorded", { step: "b", attempt: 1, tokens_in: 7, tokens_out: 3, model: "free" }),
    anEvent("step.completed", { step: "b" }),
  ]);
  expect(sums.all).toEqual({ micros: 500, tokensIn: 108, tokensOut: 14, calls: 3, unpriced: 1, unpricedTokens: 10 });
  expect(sums.steps.map(({ step, attempts, calls }) => [step, attempts, calls])).toEqual([
    ["a", 2, 2],
    ["b", 1, 1],
  ]);
  expect(sums.models.map(({ model, runtime }) => [model, runtime])).toEqual([
    ["m", "builtin 1.0"],
    ["free", ""],
  ]);
});
