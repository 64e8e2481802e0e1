import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, showRoutes } from "@/testing/render";
import { AT, aStep, aTree, TASK } from "@/testing/samples";
import { TimelineView } from "./TimelineView";

function anAttemptOf(step: string, n: number) {
  return {
    span_id: step,
    parent_id: null,
    kind: "attempt",
    name: `attempt ${step}.1`,
    step,
    attempt: 1,
    started_at: AT + n * 1_000,
    ended_at: AT + n * 1_000 + 500,
    status: "ok",
    attributes: { "longtask.outcome": "completed", "longtask.queued_ms": 100 },
  };
}

function shown(count: number) {
  const keys = Array.from({ length: count }, (_, n) => `step-${n}`);
  const tree = aTree(
    keys.map((key) => aStep(key, { state: "completed" })),
    { created_at: AT, ended_at: AT + count * 1_000 },
  );
  answerWith({
    [`GET /v1/tasks/${TASK}`]: tree,
    [`GET /v1/tasks/${TASK}/trace`]: {
      task: TASK,
      handle: "shop-12",
      trace_id: "x",
      spans: keys.map(anAttemptOf),
      cut: false,
      dropped: 0,
    },
  });
  return showRoutes(
    [
      { path: "/tasks/:task/timeline", element: <TimelineView /> },
      { path: "*", element: null },
    ],
    `/tasks/${TASK}/timeline`,
  );
}

test("bars are said in words to those who do not see them, and totals to all", async () => {
  const { container } = shown(4);
  await screen.findByRole("tree");
  expect(screen.getAllByText("completed, queued, 0.1s, attempt 1 completed, 0.5s")).toHaveLength(4);
  expect(screen.getByText("worked on").parentElement?.textContent).toContain("2.0s 50 %");
  await expectAccessible(container);
});

test("a row opens its step, and a range is looked at closer by keys", async () => {
  const { router } = shown(4);
  const tree = await screen.findByRole("tree");
  const user = userEvent.setup();
  const strip = screen.getByRole("slider");
  strip.focus();
  await user.keyboard("+");
  expect(strip.getAttribute("aria-valuetext")).toBe("1.0s to 3.0s");
  await user.keyboard("{ArrowRight}0");
  expect(strip.getAttribute("aria-valuetext")).toBe("All of it");
  tree.focus();
  await user.keyboard("jj{Enter}");
  expect(router.state.location.pathname).toBe(`/tasks/${TASK}/steps/step-1`);
});

test("of a thousand attempts only those in sight are there", async () => {
  shown(1_000);
  await screen.findByRole("tree");
  expect(screen.getAllByRole("treeitem").length).toBeLessThan(80);
});
