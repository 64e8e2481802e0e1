import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { JournalEvent } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { anEvent, aTask, TASK } from "@/testing/samples";
import { EventsView } from "./EventsView";

const EVENTS = [
  anEvent("longtask.started", { name: "shop", goal: "Move it" }, 1),
  anEvent("step.started", { step: "cart", attempt: 1, worker: "w-1" }, 2),
  anEvent("step.failed", { step: "cart", reason: "exit code 1: 3 problems" }, 3),
];

function ofTask(events: JournalEvent[], search = "") {
  answerWith({ [`GET /v1/tasks/${TASK}/events`]: { items: events, next: null } });
  return show(<EventsView />, `/tasks/${TASK}/events${search}`, "/tasks/:task/events");
}

test("the journal stands newest first, and its documents are there when somebody asks", async () => {
  const { container } = ofTask(EVENTS);
  const tree = await screen.findByRole("tree");
  const rows = within(tree).getAllByRole("treeitem");
  expect(rows.map((row) => row.textContent?.includes("step.failed"))).toEqual([true, false, false]);
  expect(screen.getByText("3 events")).toBeTruthy();
  tree.focus();
  await userEvent.keyboard("j{Enter}");
  expect(within(tree).getByText(/"specversion": "1.0"/).textContent).toContain('"worker": "w-1"');
  await expectAccessible(container);
});

test("filters stand in the address", async () => {
  const { router } = ofTask(EVENTS, "?order=oldest");
  await screen.findByRole("tree");
  const user = userEvent.setup();
  await user.selectOptions(screen.getByLabelText("Type"), "step.");
  await user.type(screen.getByLabelText("Step"), "car");
  await waitFor(() => expect(router.state.location.search).toBe("?order=oldest&type=step.&step=car"));
  expect(screen.getByText("2 of 3 events")).toBeTruthy();
  await user.type(screen.getByLabelText("Step"), "x");
  await screen.findByText("No event fits these filters.");
});

test("the journal of all tasks names them, and can be bounded to one", async () => {
  const other = "019b76da-a800-7000-8000-000000000002";
  answerWith({
    "GET /v1/events": (request: Request) => ({
      items:
        new URL(request.url).searchParams.get("cursor") === "9"
          ? []
          : [...EVENTS, { ...EVENTS[0], id: `${other}/1`, source: `/tasks/${other}` }],
      next: "9",
    }),
    "GET /v1/tasks": { items: [aTask()], next: null },
  });
  show(<EventsView />, "/events", "/events");
  const tree = await screen.findByRole("tree");
  await waitFor(() => expect(within(tree).getAllByRole("link", { name: "shop-12" })).toHaveLength(3));
  expect(within(tree).getByText("019b76da-a800")).toBeTruthy();
  await userEvent.selectOptions(screen.getByLabelText("Task"), TASK);
  await screen.findByText("3 of 4 events");
});

test("of a long journal only the rows in sight are there", async () => {
  ofTask(Array.from({ length: 5_000 }, (_, n) => anEvent("step.started", { step: `s${n}` }, n + 1)));
  await screen.findByText("5,000 events");
  expect(screen.getAllByRole("treeitem").length).toBeLessThan(80);
});
