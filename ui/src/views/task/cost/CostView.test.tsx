import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import type { JournalEvent } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { anEvent, aStep, aTree, TASK } from "@/testing/samples";
import { CostView } from "./CostView";

function shown(events: JournalEvent[]) {
  answerWith({
    [`GET /v1/tasks/${TASK}`]: aTree([aStep("cart", { kind: "agent", state: "completed" })], {
      cost_micros: 850_000,
      cost_limit_micros: 1_000_000,
    }),
    [`GET /v1/tasks/${TASK}/events`]: { items: events, next: null },
  });
  return show(<CostView />, `/tasks/${TASK}/cost`, "/tasks/:task/cost");
}

test("cost and tokens are told by step and model, with what is left and what has no price", async () => {
  const { container } = shown([
    anEvent("longtask.recorded", {
      step: "cart",
      attempt: 1,
      tokens_in: 1_000,
      tokens_out: 200,
      micros: 850_000,
      model: "model-x",
    }),
    anEvent("longtask.recorded", { step: "cart", attempt: 1, tokens_in: 30, tokens_out: 4, model: "model-y" }, 2),
  ]);
  const steps = await screen.findByRole("region", { name: "By step" });
  expect(within(steps).getByText("≥ 0.85 USD")).toBeTruthy();
  expect(within(steps).getByText("1,234")).toBeTruthy();
  expect(within(screen.getByRole("region", { name: "By model" })).getByText("no price")).toBeTruthy();
  expect(screen.getByText(/1 call has no price \(34 tokens, model-y\)/)).toBeTruthy();
  expect(screen.getByText("0.15 USD left of 1.00 USD")).toBeTruthy();
  expect(screen.getByText("without a limit")).toBeTruthy();
  await expectAccessible(container);
});

test("a task that called no model says so", async () => {
  shown([]);
  await screen.findByText("No use was reported.");
});
