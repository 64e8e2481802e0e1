import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { aStep, TASK } from "@/testing/samples";
import { StepActs } from "./StepActs";

const STEP = `/v1/tasks/${TASK}/steps/migrate`;
const FORESEEN = {
  act: "fork",
  step: "migrate",
  again: ["migrate", "tests"],
  begins: ["review"],
  skipped: [],
  kept: ["analyse"],
  gone: [],
  items_kept: { each: 12 },
  asks: false,
  revised: false,
  seq: 41,
  head: "9d2f3c1b",
};

test("what a fork does again is shown first, then the new task", async () => {
  const asked = answerAll();
  const { container, router } = show(
    <StepActs task={TASK} step={aStep("migrate", { state: "completed" })} />,
    `/tasks/${TASK}/steps/migrate`,
  );
  await userEvent.click(await screen.findByRole("button", { name: "Fork from here" }));
  expect(await screen.findByText("migrate, tests")).toBeTruthy();
  expect(screen.getByText("analyse")).toBeTruthy();
  expect(screen.getByText("Of each, 12 items are done and stay so.")).toBeTruthy();
  await expectAccessible(container);
  await userEvent.click(screen.getByLabelText(/^Paused/));
  await userEvent.click(screen.getAllByRole("button", { name: "Fork from here" }).at(-1) as HTMLElement);
  await waitFor(() => expect(router.state.location.pathname).toBe("/tasks/T2"));
  const sent = asked.filter((request) => request.method === "POST");
  expect(await Promise.all(sent.map((request) => request.json()))).toEqual([{ from: "migrate", paused: true }]);
});

test("nobody forks from what belongs to another step", () => {
  answerAll();
  show(<StepActs task={TASK} step={aStep("each[1]", { state: "completed", owner: "each" })} />, "/", "/");
  expect(screen.queryByRole("button")).toBeNull();
});

function answerAll() {
  return answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    [`GET ${STEP}/foreseen`]: FORESEEN,
    [`POST /v1/tasks/${TASK}/fork`]: {
      task: "T2",
      handle: "shop-13",
      status: "running",
      step: "migrate",
      forked_from: TASK,
    },
  });
}
