import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Span } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { AT, TASK } from "@/testing/samples";
import { TraceView } from "./TraceView";

function aSpan(
  id: string,
  parent: string | null,
  kind: string,
  from: number,
  to: number,
  more: Partial<Span> = {},
): Span {
  return {
    span_id: id,
    parent_id: parent,
    kind,
    name: id,
    step: null,
    attempt: null,
    started_at: AT + from,
    ended_at: AT + to,
    status: "ok",
    attributes: {},
    ...more,
  };
}

const SPANS: Span[] = [
  aSpan("t", null, "task", 0, 9_000, { name: "task shop" }),
  aSpan("s", "t", "stage", 0, 9_000, { name: "stage build" }),
  aSpan("x", "s", "step", 0, 9_000, { name: "step cart", step: "cart", attributes: { "longtask.step.kind": "agent" } }),
  aSpan("a", "x", "attempt", 1_000, 9_000, {
    step: "cart",
    attempt: 1,
    status: "error",
    attributes: { "longtask.outcome": "failed", "longtask.worker": "w-1" },
  }),
  aSpan("m", "a", "turn", 2_000, 4_000, {
    step: "cart",
    attempt: 1,
    attributes: { "gen_ai.request.model": "model-x", "gen_ai.usage.input_tokens": 12 },
  }),
];

function shown(spans: Span[], cut = false) {
  answerWith({
    [`GET /v1/tasks/${TASK}/trace`]: { task: TASK, handle: "shop-12", trace_id: "abc", spans, cut, dropped: 0 },
  });
  return show(<TraceView />, `/tasks/${TASK}/trace`, "/tasks/:task/trace");
}

test("spans are folded below attempts, unfold by keys, and tell their attributes and gaps", async () => {
  const { container } = shown(SPANS);
  const tree = await screen.findByRole("tree");
  expect(within(tree).queryByText("model-x")).toBeNull();
  const user = userEvent.setup();
  tree.focus();
  await user.keyboard("jjj");
  expect(screen.getByRole("treeitem", { selected: true }).textContent).toContain("attempt 1failed8.0s");
  await user.keyboard("l");
  expect(within(tree).getByText("model-x")).toBeTruthy();
  await user.keyboard("j{Enter}");
  const detail = screen.getByRole("complementary", { name: "The span" });
  expect(within(detail).getByText("gen_ai.usage.input_tokens").nextSibling?.textContent).toBe("12");
  await user.click(within(tree).getByText("cart"));
  expect(within(detail).getByText("Gaps").nextSibling?.textContent).toBe("7.0s");
  await expectAccessible(container);
});

test("what is not shown is said", async () => {
  shown(SPANS, true);
  await screen.findByText(/Only the first 5 spans are shown/);
});

test("of five thousand spans only those in sight are there", async () => {
  const many = Array.from({ length: 5_000 }, (_, n) => aSpan(`n${n}`, "t", "stage", n, n + 1, { name: `stage ${n}` }));
  shown([SPANS[0] as Span, ...many]);
  await screen.findByRole("tree");
  expect(screen.getAllByRole("treeitem").length).toBeLessThan(80);
});
