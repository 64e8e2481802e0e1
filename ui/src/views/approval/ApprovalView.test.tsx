import { act, renderHook, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { Approval } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, show } from "@/testing/render";
import { anApproval, aStep, aTree, TASK } from "@/testing/samples";
import { useNotices } from "@/parts/notices";
import { en } from "@/texts/en";
import { ApprovalView } from "./ApprovalView";

const BASE = `/v1/tasks/${TASK}`;
const ADDRESS = `${BASE}/steps/review/approval`;
const HEAD = "1f0e4a5b6c7d8e9f0a1b2c3d9d2f3c1b7c4b0f6d";

function patchOf(line: string): string {
  return `diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+${line}\n`;
}

function asking(version: string, head = HEAD, more: Partial<Approval> = {}): Approval {
  return anApproval({
    version,
    question: {
      kind: "approval",
      text: "Does this look right?",
      head,
      show: { diff: { base: "a".repeat(40), head, files: 1, insertions: 1, deletions: 1 } },
    },
    ...more,
  });
}

beforeEach(() => {
  sessionStorage.clear();
  vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener: () => {}, removeEventListener: () => {} }));
});

function tagged(approval: Approval): Response {
  return Response.json(approval, { headers: { ETag: `"${approval.version}"` } });
}

function problem(status: number, word: string, detail: string, title = word): Response {
  return Response.json({ type: `urn:longtask:problem:${word}`, title, status, detail }, { status });
}

function showApproval(approval: Approval, more: Answers = {}) {
  const tests = aStep("tests", { state: "completed", result: { exit_code: 0, tests: 183, tested: HEAD } });
  const old = aStep("lint", { state: "completed", result: { exit_code: 0, tests: 3, tested: "b".repeat(40) } });
  const review = aStep("review", { kind: "approval", state: "waiting", waiting_for: "user" });
  const asked = answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    [`GET ${BASE}`]: aTree([tests, old, review]),
    [`GET ${BASE}/graph`]: {
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
    [`GET ${BASE}/steps/review`]: { ...review, task: TASK, needs: ["tests"] },
    [`GET ${ADDRESS}`]: () => tagged(approval),
    [`GET ${BASE}/patch`]: () => new Response(patchOf("two")),
    [`POST ${ADDRESS}`]: { task: TASK, handle: "shop-12", status: "running" },
    ...more,
  });
  return {
    asked,
    ...show(<ApprovalView />, `/tasks/${TASK}/steps/review/approval`, "/tasks/:task/steps/:step/approval"),
  };
}

async function sentTo(asked: Request[]): Promise<unknown> {
  return await asked.find((request) => request.method === "POST")?.json();
}

test("all that a decision needs is there: text, evidence, what it blocks, who decides, until when, the diff", async () => {
  const { container } = showApproval(asking("1.a", HEAD, { who: ["ann", "bob"], expires_at: Date.now() + 3_600_000 }));
  await screen.findByRole("heading", { level: 1, name: "Does this look right?" });
  await waitFor(() => expect(container.querySelector(".diff")).not.toBeNull());
  expect(screen.getByText("183 tests passed")).toBeTruthy();
  expect(screen.getByText("on exactly this code")).toBeTruthy();
  expect(screen.getByText(/the code has changed since/)).toBeTruthy();
  expect(await screen.findByRole("link", { name: "ship" })).toBeTruthy();
  expect(screen.getByText("ann, bob")).toBeTruthy();
  await expectAccessible(container);
});

test("a rejection takes a reason, and comments on lines go with it", async () => {
  const { asked, container } = showApproval(asking("1.a"));
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Comment on a.py:1" }));
  await user.keyboard("why two?");
  await user.click(screen.getByRole("button", { name: "Keep the comment" }));
  await user.click(screen.getByRole("button", { name: "Reject" }));
  const dialog = screen.getByRole("dialog");
  await user.type(within(dialog).getByRole("textbox"), "Not yet.");
  await expectAccessible(container);
  await user.click(within(dialog).getByRole("button", { name: "Reject" }));
  await waitFor(async () =>
    expect(await sentTo(asked)).toEqual({ answer: "reject", text: "Not yet.\n\na.py:1: why two?" }),
  );
  expect(asked.find((request) => request.method === "POST")?.headers.get("If-Match")).toBe('"1.a"');
});

test("without a word nothing is rejected", async () => {
  showApproval(asking("1.a"));
  const user = userEvent.setup();
  await screen.findByRole("heading", { level: 1 });
  await user.keyboard("r");
  const reject = within(await screen.findByRole("dialog")).getByRole<HTMLButtonElement>("button", { name: "Reject" });
  expect(reject.disabled).toBe(true);
});

test("it is approved by keyboard alone", async () => {
  const { asked } = showApproval(asking("1.a"));
  const user = userEvent.setup();
  await screen.findByRole("heading", { level: 1 });
  await user.keyboard("a");
  await screen.findByRole("dialog");
  await user.keyboard("fine{Tab}{Tab}{Enter}");
  await waitFor(async () => expect(await sentTo(asked)).toEqual({ answer: "approve", text: "fine" }));
});

test("an agent's call is shown as the command that it is, and edited as its arguments", async () => {
  const call = { name: "shell", args: { command: "rm -rf build", timeout: 30 } };
  const { asked, container } = showApproval(
    asking("1.a", HEAD, {
      text: "May the agent do this?",
      question: { kind: "approval", text: "May the agent do this?", show: { call } },
    }),
  );
  await screen.findByText("$ rm -rf build");
  await expectAccessible(container);
  const user = userEvent.setup();
  await user.click(screen.getByRole("button", { name: "Edit" }));
  const dialog = screen.getByRole("dialog");
  const field = within(dialog).getByRole<HTMLTextAreaElement>("textbox", { name: "Arguments of shell" });
  expect(JSON.parse(field.value)).toEqual(call.args);
  await user.clear(field);
  await user.type(field, "{{}");
  expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Edit" }).disabled).toBe(false);
  await user.type(field, "x");
  expect(within(dialog).getByText("That is no JSON.")).toBeTruthy();
  await user.click(within(dialog).getByRole("radio", { name: "as text" }));
  await user.click(within(dialog).getByRole("button", { name: "Edit" }));
  await waitFor(async () => expect(await sentTo(asked)).toEqual({ answer: "edit", text: "", edited: "{}x" }));
});

test("arguments that were begun for one call are not put into another one", async () => {
  const asks = (version: string, command: string) =>
    asking(version, HEAD, {
      question: { kind: "approval", text: command, show: { call: { name: "shell", args: { command } } } },
    });
  let current = asks("1.a", "make clean");
  const { client } = showApproval(current, { [`GET ${ADDRESS}`]: () => tagged(current) });
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Edit" }));
  await user.type(screen.getByRole("textbox", { name: "Arguments of shell" }), " ");
  await user.click(screen.getByRole("button", { name: "Back" }));
  current = asks("2.b", "make deploy");
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  await user.click(await screen.findByRole("button", { name: "Show what is asked now" }));
  await user.click(screen.getByRole("button", { name: "Edit" }));
  expect(screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Arguments of shell" }).value).toContain(
    "make deploy",
  );
});

test("SQL is shown as such", async () => {
  const call = { name: "query", sql: "delete from orders" };
  showApproval(asking("1.a", HEAD, { question: { kind: "approval", text: "Run it?", show: { call } } }));
  await screen.findByRole("heading", { name: /SQL/ });
  expect(screen.getByText("delete from orders")).toBeTruthy();
});

test("a decision on something that has changed is refused, and what is asked now is shown with what changed", async () => {
  const next = asking("2.b", "c".repeat(40));
  let current = asking("1.a");
  const { asked } = showApproval(current, {
    [`GET ${ADDRESS}`]: () => tagged(current),
    [`GET ${BASE}/patch`]: () => new Response(patchOf(current.version === "1.a" ? "two" : "three")),
    [`POST ${ADDRESS}`]: () => {
      current = next;
      return Response.json(
        { type: "urn:longtask:problem:changed", title: "changed", status: 412, detail: "look again", current: next },
        { status: 412 },
      );
    },
  });
  const user = userEvent.setup();
  await screen.findByRole("button", { name: "Comment on a.py:1" });
  await user.click(screen.getByRole("button", { name: "Approve" }));
  await user.type(within(screen.getByRole("dialog")).getByRole("textbox"), "fine");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve" }));
  const note = await screen.findByRole("alert");
  expect(note.textContent).toContain("Nothing was decided");
  expect(note.textContent).toContain("The code has moved from 1f0e4a5b6c7d to cccccccccccc");
  await screen.findByText("changed since");
  expect(screen.queryByRole("dialog")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Approve" }));
  expect(within(screen.getByRole("dialog")).getByRole<HTMLTextAreaElement>("textbox").value).toBe("fine");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve" }));
  await waitFor(() => {
    const posts = asked
      .filter((request) => request.method === "POST")
      .map((request) => request.headers.get("If-Match"));
    expect(posts).toEqual(['"1.a"', '"2.b"']);
  });
});

test("what has changed since the version that one has looked at is shown by itself", async () => {
  const next = asking("2.b", "c".repeat(40));
  let current = asking("1.a");
  const { asked, client, container } = showApproval(current, {
    [`GET ${ADDRESS}`]: () => tagged(current),
    [`GET ${BASE}/patch`]: (request: Request) =>
      new Response(patchOf(new URL(request.url).searchParams.has("since") ? "since" : "two")),
  });
  const user = userEvent.setup();
  await screen.findByRole("heading", { level: 1, name: "Does this look right?" });
  expect(screen.queryByText("What has changed since you looked")).toBeNull();
  current = next;
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  const since = await screen.findByRole("region", { name: "What has changed since you looked" });
  await user.click(within(since).getByText("What has changed since you looked"));
  await within(since).findByRole("heading", { name: /a\.py/ });
  const query = new URL(asked.find(({ url }) => url.includes("since="))?.url ?? "").searchParams;
  expect(Object.fromEntries(query)).toEqual({ step: "review", since: HEAD });
  await user.click(screen.getByRole("button", { name: "Show what is asked now" }));
  await screen.findByText("This is what is asked now");
  expect(screen.getByRole("region", { name: "What has changed since you looked" })).toBeTruthy();
  await expectAccessible(container);
});

test("when the code has moved and nobody has asked anew yet it is told that nothing was decided, and what was said is kept", async () => {
  let current: Approval | undefined = asking("1.a");
  const { client } = showApproval(asking("1.a"), {
    [`GET ${ADDRESS}`]: () => current && tagged(current),
    [`POST ${ADDRESS}`]: () => {
      current = undefined;
      return problem(412, "changed", "the code has moved; look at it again in a moment");
    },
  });
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Approve" }));
  await user.type(within(screen.getByRole("dialog")).getByRole("textbox"), "fine");
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve" }));
  await screen.findByText("Nothing is asked here now");
  expect(renderHook(useNotices).result.current.map(({ text }) => text)).toContain(en.problem.notCounted);
  current = asking("2.b", "c".repeat(40));
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  expect((await screen.findByRole("alert")).textContent).toContain("The code has moved");
  await user.click(screen.getByRole("button", { name: "Approve" }));
  expect(within(screen.getByRole("dialog")).getByRole<HTMLTextAreaElement>("textbox").value).toBe("fine");
});

test.each([
  [409, "refused", "Not now", "somebody has answered"],
  [403, "forbidden", "Your token does not allow this", "the role approver is missing"],
  [422, "reason-needed", "A rejection takes a reason", "say in 'text' what is wrong"],
  [503, "busy", "The server is busy", "the store is busy"],
  [418, "newer-word", "a title of a newer server", "its own detail"],
])(
  "a problem that is answered (%i %s) is told where one decides, and nothing that was typed is lost",
  async (status, word, title, detail) => {
    const { container } = showApproval(asking("1.a"), {
      [`POST ${ADDRESS}`]: () => problem(status, word, detail, "a title of a newer server"),
    });
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Approve" }));
    const dialog = screen.getByRole("dialog");
    await user.type(within(dialog).getByRole("textbox"), "fine");
    await user.click(within(dialog).getByRole("button", { name: "Approve" }));
    const alert = await within(dialog).findByRole("alert");
    expect(alert.textContent).toBe(`${title}${detail}`);
    expect(within(dialog).getByRole<HTMLTextAreaElement>("textbox").value).toBe("fine");
    expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(false);
    await expectAccessible(container);
  },
);

test("files that a question shows are read as they stood at its commit", async () => {
  const question = { kind: "approval", text: "Fine?", head: HEAD, show: { files: ["docs/*", "gone.md"] } };
  const file = (path: string, more = {}) => ({ path, kind: "file", size_bytes: 12, blob: "b", ...more });
  const { asked, container } = showApproval(asking("1.a", HEAD, { question }), {
    [`GET ${BASE}/files`]: (request: Request) =>
      new URL(request.url).searchParams.get("match") === "gone.md"
        ? { items: [], next: null }
        : { items: [file("docs/read.md"), file("docs/bytes"), file("docs/away", { kind: "link" })], next: null },
    [`GET ${BASE}/files/docs/read.md`]: () =>
      new Response("# Read me", { headers: { "Content-Type": "text/markdown; charset=utf-8" } }),
    [`GET ${BASE}/files/docs/bytes`]: () =>
      new Response("a\0b", { headers: { "Content-Type": "application/octet-stream" } }),
  });
  const user = userEvent.setup();
  await user.click(await screen.findByText("docs/read.md"));
  await screen.findByRole("heading", { name: "Read me" });
  await user.click(screen.getByText("docs/bytes"));
  await screen.findByText("This kind of file is not shown.");
  expect(screen.getByText("symbolic link")).toBeTruthy();
  await screen.findByText("No file fits gone.md.");
  expect(asked.filter(({ url }) => url.includes("/files")).every(({ url }) => url.includes(`at=${HEAD}`))).toBe(true);
  await expectAccessible(container);
});

test("what is asked anew after a while is shown with what has changed since one looked", async () => {
  let current: Approval | undefined = asking("1.a");
  const { client } = showApproval(asking("1.a"), { [`GET ${ADDRESS}`]: () => current && tagged(current) });
  await screen.findByRole("heading", { level: 1, name: "Does this look right?" });
  current = undefined;
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  await screen.findByText("Nothing is asked here now");
  current = asking("2.b", "c".repeat(40));
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  const note = await screen.findByRole("alert");
  expect(note.textContent).toContain("This is what is asked now");
  expect(note.textContent).toContain("The code has moved");
});

test("what changes while one looks is not put in the place of it until one says so", async () => {
  let current = asking("1.a");
  const { client } = showApproval(current, { [`GET ${ADDRESS}`]: () => tagged(current) });
  await screen.findByRole("heading", { level: 1, name: "Does this look right?" });
  current = asking("2.b", "c".repeat(40), {
    text: "Better now?",
    question: { kind: "approval", text: "Better now?", show: {} },
  });
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK] }));
  await screen.findByText("What is asked has changed while you were looking");
  expect(screen.getByRole("heading", { level: 1, name: "Does this look right?" })).toBeTruthy();
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
  await userEvent.click(screen.getByRole("button", { name: "Show what is asked now" }));
  await screen.findByRole("heading", { level: 1, name: "Better now?" });
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(false);
});

test("who is not asked cannot answer, and is told who can", async () => {
  showApproval(asking("1.a", HEAD, { who: ["bob"] }));
  await screen.findByText("bob is asked, and you are ann.");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
});

test("a question of the machine tells its reason and takes the answers that fit it", async () => {
  const { asked } = showApproval(
    asking("1.a", HEAD, {
      kind: "conflict",
      text: "conflict",
      answers: ["resolve", "again", "give_up"],
      question: { kind: "conflict", reason: "both changed a.py" },
    }),
  );
  expect((await screen.findAllByText("both changed a.py")).length).toBeGreaterThan(0);
  const user = userEvent.setup();
  await user.click(screen.getByRole("button", { name: "Resolve" }));
  const dialog = screen.getByRole("dialog");
  await user.type(within(dialog).getByLabelText("Commit that contains both sides"), HEAD);
  await user.click(within(dialog).getByRole("button", { name: "Resolve" }));
  await waitFor(async () => expect(await sentTo(asked)).toEqual({ answer: "resolve", text: "", commit: HEAD }));
});

test("when somebody has answered it is told what, and by whom", async () => {
  const { container } = showApproval(asking("1.a"), {
    [`GET ${ADDRESS}`]: undefined,
    [`GET ${BASE}/steps/review`]: {
      ...aStep("review", {
        kind: "approval",
        state: "completed",
        result: { decision: "approve", by: "bob", text: "looked closely" },
      }),
      task: TASK,
      needs: [],
    },
  });
  await screen.findByText("Nothing is asked here now");
  await screen.findByText("Approve");
  expect(screen.getByText("looked closely")).toBeTruthy();
  expect(screen.getByText("· bob", { exact: false })).toBeTruthy();
  await expectAccessible(container);
});

test("what has become of a question stays in sight while it is asked for once more", async () => {
  let looks = 0;
  const { client } = showApproval(asking("v1"), {
    [`GET ${ADDRESS}`]: () => {
      looks += 1;
      return looks > 1 ? new Promise(() => {}) : undefined;
    },
  });
  await screen.findByRole("heading", { name: en.approval.over });
  void client.invalidateQueries();
  await waitFor(() => expect(looks).toBe(2));
  expect(screen.queryByRole("heading", { name: en.approval.over })).not.toBeNull();
});
