import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { aTask } from "@/testing/samples";
import { TasksView } from "./TasksView";

const ASKS = { step: "review", text: "Does this look right?", who: ["bob"], since: null };
const OLDER = "019b76da-a800-7000-8000-000000000002";

function answers() {
  return {
    "GET /v1/tasks": (request: Request) =>
      new URL(request.url).searchParams.has("cursor")
        ? { items: [aTask({ id: OLDER, handle: "old-1", status: "completed", percent: 100 })], next: null }
        : { items: [aTask({ asks: ASKS })], next: "12" },
    "GET /v1/workspaces": { items: [], next: null },
  };
}

test("a task is told with its stage, who is waited for, and what it has cost, by one answer for all", async () => {
  const asked = answerWith(answers());
  const { container } = show(<TasksView />);
  await screen.findByText("shop-12");
  await screen.findByText("build");
  expect(screen.getByText("bob: Does this look right?")).toBeTruthy();
  expect(screen.getByText("1.23 USD")).toBeTruthy();
  expect(screen.getByText("62 %")).toBeTruthy();
  expect(asked.filter(({ url }) => url.includes("/v1/tasks/") || url.includes("/v1/approvals"))).toEqual([]);
  await expectAccessible(container);
});

test("older tasks come when one asks for them", async () => {
  answerWith(answers());
  show(<TasksView />);
  await userEvent.click(await screen.findByRole("button", { name: "Older tasks" }));
  await screen.findByText("old-1");
  expect(screen.queryByRole("button", { name: "Older tasks" })).toBeNull();
});

test("a filter stands in the address and is asked for", async () => {
  const asked = answerWith(answers());
  const { router } = show(<TasksView />, "/tasks?status=running", "/tasks");
  const user = userEvent.setup();
  await user.click(await screen.findByLabelText("Open only"));
  await user.type(screen.getByLabelText("Name"), "shop");
  await waitFor(() => expect(router.state.location.search).toBe("?status=running&open=true&name=shop"));
  await waitFor(() => {
    const last = asked.filter((request) => new URL(request.url).pathname === "/v1/tasks").at(-1);
    expect(new URL(last?.url ?? "").search).toBe("?open=true&status=running&name=shop&limit=50");
  });
});

test("rows are gone through by j and k", async () => {
  answerWith(answers());
  show(<TasksView />);
  const row = await screen.findByText("shop-12");
  await userEvent.click(await screen.findByRole("button", { name: "Older tasks" }));
  const older = await screen.findByText("old-1");
  row.focus();
  await userEvent.keyboard("j");
  expect(document.activeElement).toBe(older);
  await userEvent.keyboard("k");
  expect(document.activeElement).toBe(row);
});
