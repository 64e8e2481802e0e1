import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, showRoutes } from "@/testing/render";
import { anAttempt, aStep, aTree, TASK } from "@/testing/samples";
import { TaskFrame } from "./TaskFrame";
import { TreeView } from "./tree/TreeView";

const TREE = aTree([
  aStep("build", { state: "completed", attempt: 1, began_at: 1, ended_at: 2 }),
  aStep("tests", { state: "running", attempt: 2, began_at: Date.now(), progress: { done: 128, total: 183, text: "" } }),
  aStep("lint", { state: "failed", attempt: 1, reason: "exit code 1: make lint\n3 problems" }),
  aStep("review", {
    kind: "approval",
    state: "waiting",
    waiting_for: "user",
    question: { kind: "approval", text: "Right?" },
  }),
]);

function at(address: string, more: Answers = {}) {
  const asked = answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    [`GET /v1/tasks/${TASK}`]: TREE,
    "GET /v1/tasks/shop-12": TREE,
    [`GET /v1/tasks/${TASK}/why`]: {
      items: [
        { what: "review asks anybody: Right?", since: Date.now(), help: [], step: "review", who: [], details: [] },
      ],
    },
    [`GET /v1/tasks/${TASK}/steps/tests`]: { ...TREE.steps[1], task: TASK, needs: [] },
    [`GET /v1/tasks/${TASK}/steps/build/attempts`]: { items: [anAttempt()], next: null },
    ...more,
  });
  const shown = showRoutes(
    [
      {
        path: "/tasks/:task",
        element: <TaskFrame />,
        children: [
          { index: true, element: <TreeView /> },
          { path: "*", element: <p>elsewhere</p> },
        ],
      },
    ],
    address,
  );
  return { ...shown, asked };
}

test("items that are still to begin count among the steps", async () => {
  const items = { total: 5_000, ended: 3, failed: 0, begun: 5 };
  const each = aStep("each", { kind: "for_each", state: "blocked", attempt: 1, items });
  const tree = aTree([...TREE.steps, each]);
  const counts = { ...tree.counts, steps: 4 + 1 + 5 + 1, open: 2 + 1 + 2 + 1 };
  at(`/tasks/${TASK}`, { [`GET /v1/tasks/${TASK}`]: { ...tree, counts } });
  await screen.findByRole("heading", { name: "shop-12" });
  expect(screen.getByRole("progressbar", { name: "Steps done" }).getAttribute("aria-valuetext")).toBe("5 / 5,005");
});

test("the head tells how far it is, what it has cost, and who is waited for", async () => {
  const { container } = at(`/tasks/${TASK}`);
  await screen.findByRole("heading", { name: "shop-12" });
  expect(screen.getByRole("progressbar", { name: "Steps done" }).getAttribute("aria-valuetext")).toBe("2 / 4");
  expect(screen.getByText(/1.23 USD, 45,000 tokens/)).toBeTruthy();
  const waits = await screen.findByRole("list", { name: "Waits for" });
  expect(within(waits).getByRole("link").getAttribute("href")).toBe(`/tasks/${TASK}/steps/review/approval`);
  await expectAccessible(container);
});

test("a handle in the address becomes the id, by which events name the task", async () => {
  const { router } = at("/tasks/shop-12");
  await waitFor(() => expect(router.state.location.pathname).toBe(`/tasks/${TASK}`));
});

test("steps are told with progress, reasons and what they wait for", async () => {
  at(`/tasks/${TASK}`);
  const tree = await screen.findByRole("tree");
  expect(within(tree).getByText("128 / 183")).toBeTruthy();
  expect(within(tree).getByText("exit code 1: 3 problems")).toBeTruthy();
  expect(within(tree).getByText("asks anybody: Right?")).toBeTruthy();
});

test("the tree is gone through, unfolded and opened by keyboard", async () => {
  const { router } = at(`/tasks/${TASK}`);
  const tree = await screen.findByRole("tree");
  const chosen = () => screen.getByRole("treeitem", { selected: true }).textContent ?? "";
  tree.focus();
  const user = userEvent.setup();
  await user.keyboard("j");
  expect(chosen()).toContain("build");
  await user.keyboard("l");
  await within(tree).findByText("attempt 1");
  await user.keyboard("jk{ArrowDown}");
  expect(chosen()).toContain("attempt 1");
  await user.keyboard("h");
  expect(chosen()).toContain("build");
  await user.keyboard("{Enter}");
  await waitFor(() => expect(router.state.location.pathname).toBe(`/tasks/${TASK}/steps/build`));
});

test("an act says what it will do before it is done", async () => {
  const acted = { task: TASK, handle: "shop-12", status: "paused" };
  const { asked } = at(`/tasks/${TASK}`, { [`POST /v1/tasks/${TASK}/pause`]: acted });
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Pause" }));
  const dialog = screen.getByRole("dialog");
  expect(within(dialog).getByText(/Nothing new is claimed/)).toBeTruthy();
  await user.click(within(dialog).getByLabelText(/Running steps give back now/));
  await user.click(within(dialog).getByRole("button", { name: "Pause" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(await asked.find((request) => request.method === "POST")?.json()).toEqual({ now: true });
});

test("of a task of 1,000 steps only the rows in sight are there", async () => {
  const many = aTree(Array.from({ length: 1_000 }, (_, n) => aStep(`step-${n}`)));
  at(`/tasks/${TASK}`, { [`GET /v1/tasks/${TASK}`]: many });
  await screen.findByRole("tree");
  expect(screen.getAllByRole("treeitem").length).toBeLessThan(80);
});
