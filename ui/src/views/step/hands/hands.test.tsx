import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { StepDetail, TaskTree } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, show } from "@/testing/render";
import { aStep, aTree, TASK } from "@/testing/samples";
import { HandActs } from "./HandActs";
import { mayEdit, mayTake, standsStill } from "./may";
import { Taken } from "./Taken";
import { fieldsOf, saidAnew } from "./words";

const STEP = `/v1/tasks/${TASK}/steps/tests`;
const ACTED = { task: TASK, handle: "shop-12", status: "running", step: "tests" };
const WORDS = { run: "pytest -q", timeout: "1h", retry: 2 };

function aDetail(more: Partial<StepDetail> = {}): StepDetail {
  return { ...aStep("tests", { state: "failed", attempt: 1 }), task: TASK, needs: [], ...more };
}

function aTask(more: Partial<TaskTree> = {}): TaskTree {
  return aTree([aDetail()], more);
}

function answerAll(more: Answers = {}) {
  return answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["operator"], workspaces: null, token: null },
    [`GET ${STEP}`]: { ...aDetail(), words: WORDS },
    [`GET ${STEP}/foreseen`]: {
      again: ["tests"],
      begins: ["deliver"],
      skipped: [],
      kept: [],
      gone: [],
      items_kept: {},
    },
    [`POST ${STEP}/edit`]: ACTED,
    [`POST ${STEP}/take`]: ACTED,
    [`POST ${STEP}/give-back`]: ACTED,
    [`POST ${STEP}/done`]: ACTED,
    ...more,
  });
}

async function sent(asked: Request[]): Promise<unknown[]> {
  return Promise.all(asked.filter((request) => request.method === "POST").map((request) => request.json()));
}

test("what a step is to do stands in the form, and only what is said anew is sent", async () => {
  const asked = answerAll();
  const { container } = show(<HandActs task={aTask()} step={aDetail()} />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Edit" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/counts from the next attempt on/)).toBeTruthy();
  expect(await within(dialog).findByText("deliver")).toBeTruthy();
  const command = within(dialog).getByLabelText<HTMLTextAreaElement>("Command");
  expect(command.value).toBe("pytest -q");
  const edit = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Edit" });
  expect(edit.disabled).toBe(true);
  await expectAccessible(container);
  await user.type(command, " -x");
  expect(within(dialog).getByLabelText<HTMLInputElement>("And retry now").checked).toBe(true);
  await user.click(edit);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(await sent(asked)).toEqual([{ words: { run: "pytest -q -x" }, retry: true }]);
});

test("words that are not taken are told, and stay in the form", async () => {
  const problem = {
    type: "urn:longtask:problem:bad-plan",
    title: "the plan breaks the rules",
    status: 422,
    detail: "",
    problems: [{ path: "timeout", message: "'1x' is not a duration" }],
  };
  answerAll({ [`POST ${STEP}/edit`]: () => Response.json(problem, { status: 422 }) });
  show(<HandActs task={aTask()} step={aDetail()} />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Edit" }));
  const timeout = await screen.findByLabelText<HTMLInputElement>("Timeout of an attempt");
  await user.clear(timeout);
  await user.type(timeout, "1x");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Edit" }));
  expect(await screen.findByText(/'1x' is not a duration/)).toBeTruthy();
  expect(timeout.value).toBe("1x");
});

test("a step of a failed task is edited and retried in one go", async () => {
  answerAll();
  show(<HandActs task={aTask({ status: "failed" })} step={aDetail()} />);
  await userEvent.click(await screen.findByRole("button", { name: "Edit" }));
  expect((await screen.findByLabelText<HTMLInputElement>(/And retry now/)).disabled).toBe(true);
});

test("a step is taken over for some hours", async () => {
  const asked = answerAll();
  const { container } = show(<HandActs task={aTask()} step={aDetail()} />);
  await userEvent.click(await screen.findByRole("button", { name: "Take over" }));
  const dialog = await screen.findByRole("dialog");
  expect(within(dialog).getByText("longtask take shop-12 tests")).toBeTruthy();
  await expectAccessible(container);
  await userEvent.click(within(dialog).getByRole("button", { name: "Take over" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(await sent(asked)).toEqual([{ hours: 24 }]);
});

test("who has taken a step says that it is done, with what it hands over", async () => {
  const asked = answerAll();
  const { container } = show(
    <Taken task={aTask()} step={aDetail({ state: "running", taken_by: "ann", began_at: 1 })} by="ann" />,
  );
  expect(await screen.findByText("longtask done shop-12 tests")).toBeTruthy();
  const user = userEvent.setup();
  await user.click(screen.getByRole("button", { name: "Done" }));
  const dialog = await screen.findByRole("dialog");
  const done = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Done" });
  await user.type(within(dialog).getByLabelText("Outputs, as JSON"), "[[1]");
  expect(within(dialog).getByRole("status").textContent).toBe("That is no JSON object.");
  expect(done.disabled).toBe(true);
  await user.clear(within(dialog).getByLabelText("Outputs, as JSON"));
  await user.type(within(dialog).getByLabelText("Outputs, as JSON"), '{{"n": 1}');
  await expectAccessible(container);
  await user.click(done);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(await sent(asked)).toEqual([{ outputs: { n: 1 } }]);
});

test("of another's step one may only say that it is given back", async () => {
  answerAll();
  show(<Taken task={aTask()} step={aDetail({ state: "running", taken_by: "bob" })} by="bob" />);
  expect(await screen.findByText(/bob works on it by hand/)).toBeTruthy();
  await waitFor(() => expect(screen.getByRole("button", { name: "Done" }).title).toContain("bob"));
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Done" }).disabled).toBe(true);
  await userEvent.click(screen.getByRole("button", { name: "Give back" }));
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Give back" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

test("only what the server would take is offered", () => {
  const may = (more: Partial<StepDetail>, status = "running") => {
    const [task, step] = [aTask({ status }), aDetail(more)];
    return [mayTake(task, step), mayEdit(task, step)];
  };
  const asks = (kind: string) => ({ state: "waiting", waiting_for: "user", question: { kind } });
  expect(may({})).toEqual([true, true]);
  expect(may({}, "failed")).toEqual([true, true]);
  expect(may({}, "cancelled")).toEqual([false, false]);
  expect(may({ state: "ready" })).toEqual([true, true]);
  expect(may({ state: "blocked" })).toEqual([false, true]);
  expect(may({ state: "running" })).toEqual([false, false]);
  expect(may({ state: "completed" })).toEqual([false, false]);
  expect(may({ kind: "approval", ...asks("approval") })).toEqual([false, true]);
  expect(may({ kind: "wait", state: "waiting", waiting_for: "event" })).toEqual([false, false]);
  expect(may({ kind: "agent", ...asks("failed") })).toEqual([true, true]);
  expect(may({ kind: "agent", ...asks("conflict") })).toEqual([false, false]);
  expect(may({ owner: "each" })).toEqual([false, false]);
  expect(standsStill(aDetail({ state: "waiting", question: { kind: "failed", answers: ["again"] } }))).toBe(true);
  expect(standsStill(aDetail({ state: "blocked" }))).toBe(false);
});

test("a command that is a list of words stays one", () => {
  const was = { run: ["make", "test"], timeout: null, retry: 0 };
  const fields = fieldsOf(was);
  expect(saidAnew(was, fields)).toEqual({});
  expect(saidAnew(was, { ...fields, text: '["make", "all"]', retry: "3" })).toEqual({ run: ["make", "all"], retry: 3 });
  expect(saidAnew({ agent: { prompt: "a" } }, { kind: "agent", text: "b", timeout: "", retry: "" })).toEqual({
    agent: { prompt: "b" },
  });
});
