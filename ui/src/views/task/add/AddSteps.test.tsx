import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import type { Growth } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { aStep, aTree, TASK } from "@/testing/samples";
import { TaskActs } from "../TaskActs";
import { countOf, growthIn, placesIn } from "./growth";

const TREE = aTree(
  [
    aStep("analyse", { state: "completed" }),
    aStep("backend", { stage: 2, state: "running" }),
    aStep("integration", { stage: 2 }),
    aStep("integration.fix.1", { stage: 2, owner: "integration" }),
    aStep("publish", { stage: 3 }),
  ],
  {
    stages: [
      { name: "look", status: "completed" },
      { name: "change", status: "running" },
      { name: "release", status: "upcoming" },
    ],
  },
);
const WHO = { name: "ann", roles: ["operator"], workspaces: null, token: null };
const STEPS = `POST /v1/tasks/${TASK}/steps`;
const DOCS = '[{"id": "docs", "run": "make docs"}]';

beforeEach(() => sessionStorage.clear());

async function opened() {
  await userEvent.click(await screen.findByRole("button", { name: "Add steps" }));
  return screen.findByRole("dialog");
}

function write(text: string) {
  fireEvent.change(screen.getByLabelText("Steps, as JSON"), { target: { value: text } });
}

test("steps are added in front of one of those that have not begun", async () => {
  const asked = answerWith({
    "GET /v1/whoami": WHO,
    [STEPS]: { task: TASK, handle: "shop-12", status: "running", steps: ["docs"] },
  });
  const { container } = show(<TaskActs task={TREE} />);
  const dialog = await opened();
  const options = (name: string) =>
    [...within(dialog).getByLabelText<HTMLSelectElement>(name).options].map((option) => option.value);
  expect(options("Stage")).toEqual(["", "change", "release"]);
  expect(options("In front of")).toEqual(["", "integration", "publish"]);
  await userEvent.selectOptions(within(dialog).getByLabelText("Stage"), "change");
  expect(options("In front of")).toEqual(["", "integration"]);
  expect(options("After")).toEqual(["", "analyse", "backend", "integration"]);
  await userEvent.selectOptions(within(dialog).getByLabelText("In front of"), "integration");
  await expectAccessible(container);
  write(DOCS);
  await userEvent.click(within(dialog).getByRole("button", { name: "Add steps" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(await asked.find((request) => request.method === "POST")?.json()).toEqual({
    steps: [{ id: "docs", run: "make docs" }],
    stage: "change",
    before: "integration",
  });
  await opened();
  expect(screen.getByLabelText<HTMLTextAreaElement>("Steps, as JSON").value).toBe("");
});

test("all that is wrong is told, and nothing that was typed is lost", async () => {
  const problem = {
    type: "urn:longtask:problem:bad-plan",
    title: "the plan breaks the rules",
    status: 422,
    detail: "",
    problems: [
      { path: "steps[0]", message: "unknown word 'runn'" },
      { path: "steps[1].needs", message: "no such step: z" },
    ],
  };
  answerWith({ "GET /v1/whoami": WHO, [STEPS]: () => Response.json(problem, { status: 422 }) });
  show(<TaskActs task={TREE} />);
  const dialog = await opened();
  write(DOCS);
  await userEvent.click(within(dialog).getByRole("button", { name: "Add steps" }));
  expect(await within(dialog).findByText(/unknown word 'runn'/)).toBeTruthy();
  expect(within(dialog).getByText(/no such step: z/)).toBeTruthy();
  await userEvent.click(within(dialog).getByRole("button", { name: "Close" }));
  await opened();
  expect(screen.getByLabelText<HTMLTextAreaElement>("Steps, as JSON").value).toBe(DOCS);
});

test("a text that is no list of steps is not sent", async () => {
  answerWith({ "GET /v1/whoami": WHO });
  show(<TaskActs task={TREE} />);
  const dialog = await opened();
  write("[{");
  expect(within(dialog).getByRole("status").textContent).toContain("That is no JSON");
  expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Add steps" }).disabled).toBe(true);
  expect(growthIn('{"id": "docs", "run": "x"}').growth).toEqual({ steps: [{ id: "docs", run: "x" }] });
  expect(growthIn('{"steps": [], "stage": "release"}').growth).toEqual({ steps: [], stage: "release" });
  const staged = growthIn('{"stages": [{"name": "a", "steps": [{"id": "x"}, {"id": "y"}]}]}').growth;
  expect(countOf(staged as Growth)).toBe(2);
  expect(growthIn("7").growth).toBeNull();
  expect(placesIn(TREE, "release").before).toEqual(["publish"]);
});
