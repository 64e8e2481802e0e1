import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { anApproval, aStep, TASK } from "@/testing/samples";
import { InboxView } from "@/views/inbox/InboxView";
import { ApprovalView } from "./ApprovalView";

const RESULT = {
  steps: [
    { id: "sessions", run: "pytest tests/sessions", timeout: "10m" },
    { id: "notes", agent: { prompt: "Write down what changed.\nBriefly." }, needs: ["sessions"] },
    { id: "each", for_each: ["a", "b"], run: "make ${{ item }}", needs: "notes" },
  ],
};
const REASON = "it wants to add 3 steps: sessions, notes, each";

function aProposal(result: unknown = RESULT) {
  return anApproval({
    step: "plan",
    kind: "plan",
    text: REASON,
    version: "1.abc",
    answers: ["approve", "reject"],
    question: { kind: "plan", reason: REASON, answers: ["approve", "reject"], digest: "abc", result },
  });
}

const WHO = { name: "ann", roles: ["approver"], workspaces: null, token: null };
const APPROVAL = `/v1/tasks/${TASK}/steps/plan/approval`;

function showProposal(result?: unknown) {
  const approval = aProposal(result);
  const asked = answerWith({
    "GET /v1/whoami": WHO,
    [`GET ${APPROVAL}`]: () => Response.json(approval, { headers: { ETag: `"${approval.version}"` } }),
    [`POST ${APPROVAL}`]: { task: TASK, handle: "shop-12", status: "running" },
    [`GET /v1/tasks/${TASK}/steps/plan`]: {
      ...aStep("plan", { state: "waiting", question: { kind: "plan", result: RESULT } }),
      task: TASK,
      needs: [],
    },
  });
  const address = `/tasks/${TASK}/steps/plan/approval`;
  return { asked, ...show(<ApprovalView />, address, "/tasks/:task/steps/:step/approval") };
}

beforeEach(() => sessionStorage.clear());

test("the steps that a planner wants to add are read one by one", async () => {
  const { container } = showProposal();
  const steps = await screen.findByRole("region", { name: "The steps, one by one" });
  expect(within(steps).getByText("pytest tests/sessions")).toBeTruthy();
  expect(within(steps).getByText("Write down what changed.")).toBeTruthy();
  expect(within(steps).getByText("after sessions")).toBeTruthy();
  expect(within(steps).getByRole("img", { name: "for each" })).toBeTruthy();
  await userEvent.click(within(steps).getByText("sessions"));
  expect((await within(steps).findByLabelText("As the plan writes it: sessions")).textContent).toContain('"10m"');
  await expectAccessible(container);
});

test("steps that are too many for a row are fetched", async () => {
  showProposal({ $artifact: "5d41402abc4b2a76" });
  expect(await screen.findByText("pytest tests/sessions")).toBeTruthy();
});

test("a planner is sent back with a reason", async () => {
  const { asked } = showProposal();
  await screen.findByText("pytest tests/sessions");
  await userEvent.click(screen.getByRole("button", { name: /Reject/ }));
  const dialog = screen.getByRole("dialog");
  expect(within(dialog).getByText(/The planner plans anew/)).toBeTruthy();
  const reject = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Reject" });
  expect(reject.disabled).toBe(true);
  await userEvent.type(within(dialog).getByRole("textbox"), "no notes");
  await userEvent.click(reject);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const decided = asked.find((request) => request.method === "POST");
  expect(decided?.headers.get("If-Match")).toBe('"1.abc"');
  expect(await decided?.json()).toEqual({ answer: "reject", text: "no notes" });
});

test("it stands in the inbox with its answers", async () => {
  answerWith({
    "GET /v1/whoami": WHO,
    "GET /v1/approvals": { items: [aProposal()], next: null },
    "GET /v1/tasks": { items: [], next: null },
  });
  show(<InboxView />);
  expect(await screen.findByText("Steps to add")).toBeTruthy();
  expect(screen.getByText(REASON)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Approve" }));
  expect(within(screen.getByRole("dialog")).getByText(/The steps are added to the task/)).toBeTruthy();
});
