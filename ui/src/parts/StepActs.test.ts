import { expect, test } from "vitest";
import { aStep } from "@/testing/samples";
import { stepActs } from "./StepActs";

test("each state has the acts that the server would take", () => {
  const acts = (state: string, owner: string | null = null) => stepActs(aStep("a", { state, owner }));
  expect(acts("failed")).toEqual(["retry", "skip"]);
  expect(acts("ready")).toEqual(["skip", "stop"]);
  expect(acts("ready", "each")).toEqual(["stop"]);
  expect(acts("failed", "each")).toEqual(["retry", "skip"]);
  expect(acts("completed")).toEqual([]);
});
