import { act, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { Step } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { aStep, aTree, TASK } from "@/testing/samples";
import { GraphView } from "./GraphView";

const STEPS = [
  aStep("build", { state: "completed", attempt: 1 }),
  aStep("each", { kind: "for_each", state: "blocked" }),
  ...Array.from({ length: 20 }, (_, n) =>
    aStep(`each[${n}]`, { owner: "each", state: n < 3 ? "completed" : n < 5 ? "failed" : "ready" }),
  ),
  aStep("review", { kind: "approval", state: "waiting", waiting_for: "user", question: { text: "Right?" } }),
  aStep("ship", { state: "blocked" }),
];
const EDGES = [
  ["build", "each"],
  ["build", "review"],
  ["review", "ship"],
];

// What is out of sight is not drawn, and jsdom gives nothing a size.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, "offsetWidth", "get").mockReturnValue(2_000);
  vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockReturnValue(1_000);
});

function shown(steps: Step[], edges: string[][]) {
  answerWith({
    [`GET /v1/tasks/${TASK}`]: aTree(steps),
    [`GET /v1/tasks/${TASK}/graph`]: {
      task: TASK,
      name: "shop",
      stages: ["build"],
      steps: steps.map(({ key, kind, stage, state, owner }) => ({ key, kind, stage, state, owner })),
      edges,
      steps_left_out: 0,
    },
    [`GET /v1/tasks/${TASK}/why`]: {
      items: [{ what: "needs review", since: null, help: [], step: "ship", who: [], details: [] }],
    },
  });
  return show(<GraphView />, `/tasks/${TASK}/graph`, "/tasks/:task/graph");
}

test("nodes have names, and lead to their steps", async () => {
  const { container } = shown(STEPS, EDGES);
  const review = await screen.findByRole("link", { name: /approval ?review ?waiting ?asks anybody: Right\?/ });
  expect(review.getAttribute("href")).toBe(`/tasks/${TASK}/steps/review/approval`);
  expect(screen.getByRole("link", { name: /command ?build ?completed/ }).getAttribute("href")).toBe(
    `/tasks/${TASK}/steps/build`,
  );
  await expectAccessible(container);
});

test("a fan-out is one node with counts, which opens into a list", async () => {
  shown(STEPS, EDGES);
  const fold = await screen.findByRole("button", { name: /for each ?each ?blocked ?5 \/ 20 ?failed ?2/ });
  act(() => fold.focus());
  await userEvent.keyboard("{Enter}");
  const dialog = screen.getByRole("dialog", { name: "each" });
  expect(within(dialog).getByText("20 / 20")).toBeTruthy();
  await userEvent.selectOptions(within(dialog).getByLabelText("State"), "completed");
  expect(within(dialog).getByText("3 / 20")).toBeTruthy();
  await expectAccessible(dialog);
});

test("by arrow keys one goes from node to node, and sees what a blocked one waits for", async () => {
  shown(STEPS, EDGES);
  const build = await screen.findByRole("link", { name: /build/ });
  act(() => build.focus());
  await userEvent.keyboard("{ArrowRight}");
  const names = () => document.activeElement?.textContent ?? "";
  await waitFor(() => expect(names()).not.toContain("build"));
  const ship = screen.getByRole("link", { name: /ship/ });
  await userEvent.hover(ship);
  await screen.findByText("needs review");
  expect(screen.getByRole("link", { name: /build/ }).className).toContain("opacity");
  expect(screen.getByRole("link", { name: /review/ }).className).not.toContain("opacity");
});
