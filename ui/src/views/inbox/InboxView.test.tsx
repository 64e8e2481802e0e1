import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, show } from "@/testing/render";
import { anApproval, aTask, TASK } from "@/testing/samples";
import { InboxView } from "./InboxView";

const REVIEW = anApproval();
const OTHER = anApproval({ step: "sign", who: ["bob"], text: "Sign?" });
const DECIDE = `POST /v1/tasks/${TASK}/steps/review/approval`;

function answers(more: Answers = {}): Answers {
  return {
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    "GET /v1/tasks": { items: [aTask({ status: "waiting_user" })], next: null },
    "GET /v1/approvals": (request: Request) => ({
      items: new URL(request.url).searchParams.get("mine") === "true" ? [REVIEW] : [REVIEW, OTHER],
      next: null,
    }),
    [`GET /v1/tasks/${TASK}/graph`]: {
      task: TASK,
      name: "shop",
      stages: ["one"],
      steps: [
        { key: "review", kind: "approval", stage: 1, state: "waiting", owner: null },
        { key: "ship", kind: "run", stage: 1, state: "blocked", owner: null },
      ],
      edges: [["review", "ship"]],
      steps_left_out: 0,
    },
    ...more,
  };
}

test("what waits for me is told with what it shows and what it blocks, apart from what others are asked", async () => {
  answerWith(answers());
  const { container } = show(<InboxView />);
  await screen.findByText("Does this look right?");
  await screen.findByText("blocks 1 step");
  expect(screen.getByText("3 files, +40 −7")).toBeTruthy();
  expect(within(screen.getByText("Others are asked").parentElement as HTMLElement).getByText("Sign?")).toBeTruthy();
  await expectAccessible(container);
});

test("a decision is made without leaving, and names the version that was seen", async () => {
  const asked = answerWith(answers({ [DECIDE]: { task: TASK, handle: "shop-12", status: "running" } }));
  show(<InboxView />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Approve" }));
  await user.type(screen.getByLabelText("A word for the record"), "fine");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const sent = asked.find((request) => request.method === "POST");
  expect(sent?.headers.get("If-Match")).toBe(`"${REVIEW.version}"`);
  expect(sent?.headers.get("Idempotency-Key")).toMatch(/^[0-9a-f]{32}$/);
  expect(await sent?.json()).toEqual({ answer: "approve", text: "fine" });
});

test("of a planner whose steps do not hold, all that is wrong is told", async () => {
  const reason = "the steps cannot be added:\nstep 'x' is there\nno step 'y'";
  const asked = anApproval({
    kind: "failed",
    text: "the steps cannot be added: …",
    question: { kind: "failed", reason },
  });
  answerWith(answers({ "GET /v1/approvals": { items: [asked], next: null } }));
  show(<InboxView />);
  const wrong = within(await screen.findByRole("list", { name: "What is wrong" })).getAllByRole("listitem");
  expect(wrong.map((item) => item.textContent)).toEqual(["step 'x' is there", "no step 'y'"]);
});

test("a rejection takes a reason", async () => {
  answerWith(answers());
  show(<InboxView />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Reject" }));
  const reject = within(screen.getByRole("dialog")).getByRole<HTMLButtonElement>("button", { name: "Reject" });
  expect(reject.disabled).toBe(true);
  await user.type(screen.getByLabelText("What is wrong"), "no tests");
  expect(reject.disabled).toBe(false);
});

test("what has changed since it was seen is said, and nothing is decided", async () => {
  const changed = {
    type: "urn:longtask:problem:changed",
    title: "what is asked has changed",
    status: 412,
    detail: "look at it again",
  };
  answerWith(answers({ [DECIDE]: Response.json(changed, { status: 412 }) }));
  show(<InboxView />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Approve" }));
  const dialog = within(screen.getByRole("dialog"));
  await user.click(dialog.getByRole("button", { name: "Approve" }));
  expect((await dialog.findByRole("alert")).textContent).toContain("What is asked has changed since you looked");
  expect(dialog.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
  const look = dialog.getByRole<HTMLAnchorElement>("link", { name: "Show what is asked now" });
  expect(new URL(look.href).pathname).toBe(`/tasks/${TASK}/steps/review/approval`);
});

test("that somebody else was faster is told, and one's words stay", async () => {
  const refused = { type: "urn:longtask:problem:refused", title: "not now", status: 409, detail: "bob has answered" };
  answerWith(answers({ [DECIDE]: () => Response.json(refused, { status: 409 }) }));
  show(<InboxView />);
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Reject" }));
  const dialog = within(screen.getByRole("dialog"));
  await user.type(dialog.getByLabelText("What is wrong"), "no tests");
  await user.click(dialog.getByRole("button", { name: "Reject" }));
  expect((await dialog.findByRole("alert")).textContent).toBe("Not nowbob has answered");
  expect(dialog.getByLabelText<HTMLInputElement>("What is wrong").value).toBe("no tests");
});

test("whoever may not decide sees that, and why", async () => {
  answerWith(answers({ "GET /v1/whoami": { name: "eve", roles: ["viewer"], workspaces: null, token: "4k2m" } }));
  show(<InboxView />);
  await waitFor(() => {
    const approve = screen.getByRole<HTMLButtonElement>("button", { name: "Approve" });
    expect([approve.disabled, approve.title]).toEqual([true, "Your token has no role for this"]);
  });
});
