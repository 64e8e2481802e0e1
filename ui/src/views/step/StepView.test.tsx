import { act, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { StepDetail } from "@/api/documents";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, show } from "@/testing/render";
import { AT, aStep, anAttempt, aTree, TASK } from "@/testing/samples";
import { StepView } from "./StepView";

const BASE = `GET /v1/tasks/${TASK}`;

beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(800);
  vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener: () => {}, removeEventListener: () => {} }));
});

function aDetail(more: Partial<StepDetail> = {}): StepDetail {
  return {
    ...aStep("tests", { state: "completed", attempt: 1, began_at: AT, ended_at: AT + 5_000 }),
    task: TASK,
    needs: [],
    ...more,
  };
}

function showStep(step: StepDetail, more: Answers = {}, search = "") {
  const asked = answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    [BASE]: aTree([aStep("build", { state: "completed" }), step]),
    [`${BASE}/steps/tests`]: step,
    [`${BASE}/steps/tests/attempts`]: { items: [anAttempt({ attempt: step.attempt })], next: null },
    [`${BASE}/why`]: { items: [] },
    ...more,
  });
  return { asked, ...show(<StepView />, `/tasks/${TASK}/steps/tests${search}`, "/tasks/:task/steps/:step") };
}

function output(text: string) {
  return { items: [{ n: 1, at: AT, stream: "out", text }], next: null };
}

test("a command's output is shown with its state, its duration and what can be done", async () => {
  const { container } = showStep(aDetail({ state: "failed", reason: "exit code 1: no" }), {
    [`${BASE}/steps/tests/attempts/1/output`]: output("\x1b[31mFAILED\x1b[0m test_a\n1 failed\n"),
    [`${BASE}/why`]: {
      items: [
        {
          what: "tests failed: exit code 1",
          since: AT,
          help: ["longtask retry shop-12 tests"],
          step: "tests",
          who: [],
          details: ["step 'x' is there", "no step 'y'"],
        },
      ],
    },
  });
  expect((await screen.findByText("FAILED")).className).toContain("text-bad");
  expect(screen.getByText("tests failed: exit code 1")).toBeTruthy();
  expect(screen.getByText("longtask retry shop-12 tests")).toBeTruthy();
  const wrong = within(screen.getByRole("list", { name: "In full" })).getAllByRole("listitem");
  expect(wrong.map((item) => item.textContent)).toEqual(["step 'x' is there", "no step 'y'"]);
  expect(screen.getByRole("button", { name: "Retry" })).toBeTruthy();
  await expectAccessible(container);
});

test("output of an attempt that goes on is asked for with the last cursor until nothing comes any more", async () => {
  const cursors: (string | null)[] = [];
  showStep(aDetail({ state: "running", ended_at: null }), {
    [`${BASE}/steps/tests/attempts`]: { items: [anAttempt({ ended_at: null, outcome: null })], next: null },
    [`${BASE}/steps/tests/attempts/1/output`]: (request: Request) => {
      cursors.push(new URL(request.url).searchParams.get("cursor"));
      if (cursors.length === 1) return { items: output("first\n").items, next: "1" };
      return { items: [{ n: 2, at: AT, stream: "out", text: "second\n" }], next: null };
    },
  });
  await screen.findByText("first");
  await screen.findByText("second");
  expect(cursors).toEqual([null, "1"]);
});

test("an agent's run is told as turns, with its tool calls folded", async () => {
  const rows = [
    { step: "tests", run: 1, attempt: 1 },
    {
      n: 1,
      kind: "turn",
      name: "model-a",
      tokens_in: 1_200,
      tokens_out: 30,
      micros: 4_000,
      body: { text: "I look.", calls: [{ tool: "shell", args: { command: "make test" } }] },
    },
    { n: 2, kind: "tool", name: "shell", body: { text: "183 passed", failed: false, tree: "ab12ab12ab12ab12" } },
  ];
  const { container } = showStep(aDetail({ kind: "agent" }), {
    [`${BASE}/artifacts/transcript/tests.1.jsonl`]: new Response(rows.map((row) => JSON.stringify(row)).join("\n")),
  });
  await screen.findByText("I look.");
  const turn = screen.getByRole("article", { name: "Turn 1" });
  expect(turn.textContent).toContain("1,200 in, 30 out");
  expect(turn.querySelector("details")?.open).toBe(false);
  expect(within(turn).getByText("183 passed")).toBeTruthy();
  expect(screen.getByText("ab12ab12ab12")).toBeTruthy();
  await expectAccessible(container);
});

test("an agent's turns are read while it works: what is over is asked for once, what goes on is told as such", async () => {
  const row = (n: number, kind: string, name: string, body: unknown) => ({
    n,
    kind,
    name,
    attempt: 1,
    tokens_in: 1_200,
    tokens_out: 30,
    micros: 4_000,
    started_at: AT,
    done_at: body === null ? null : AT + 900,
    body,
  });
  const rows = [
    row(1, "turn", "model-b", { text: "I look.", calls: [{ tool: "shell", args: { command: "make test" } }] }),
    row(2, "tool", "shell", null),
  ];
  const { asked, client } = showStep(aDetail({ kind: "agent", state: "running", ended_at: null, run: 1 }), {
    [`${BASE}/steps/tests/attempts`]: { items: [anAttempt({ ended_at: null, outcome: null })], next: null },
    [`${BASE}/steps/tests/turns`]: (request: Request) => {
      const after = Number(new URL(request.url).searchParams.get("cursor") ?? 0);
      return { items: rows.filter(({ n }) => n > after), next: "2" };
    },
  });
  await screen.findByText("I look.");
  expect(within(screen.getByRole("article", { name: "Turn 1" })).getByRole("img", { name: "running" })).toBeTruthy();
  rows[1] = row(2, "tool", "shell", { text: "183 passed", failed: false });
  rows.push(row(3, "turn", "model-b", null));
  await act(() => client.invalidateQueries({ queryKey: ["task", TASK, "step", "tests", "turns"] }));
  await screen.findByText("model-b is asked …");
  expect(screen.getByText("183 passed")).toBeTruthy();
  const cursors = asked
    .filter(({ url }) => url.includes("/turns"))
    .map(({ url }) => new URL(url).searchParams.get("cursor"));
  expect(cursors).toEqual([null, "1"]);
});

test("an attempt of an earlier run that left no transcript is told by its spans", async () => {
  showStep(aDetail({ kind: "agent", state: "running", ended_at: null, run: 2 }), {
    [`${BASE}/steps/tests/attempts`]: { items: [anAttempt({ outcome: "lost" })], next: null },
    [`${BASE}/steps/tests/turns`]: { items: [], next: "0" },
    [`${BASE}/trace`]: {
      task: TASK,
      handle: "shop-12",
      trace_id: "t",
      spans: [
        {
          span_id: "1",
          parent_id: null,
          kind: "turn",
          name: "chat m",
          step: "tests",
          attempt: 1,
          started_at: AT,
          ended_at: AT + 900,
          status: "ok",
          attributes: { "gen_ai.request.model": "model-b" },
        },
      ],
      cut: false,
      dropped: 0,
    },
  });
  await screen.findByText("model-b");
  expect(screen.getByText(/told without words/)).toBeTruthy();
});

test("two attempts stand side by side", async () => {
  const attempts = [
    anAttempt({ attempt: 1, outcome: "lost", reason: null, worker: "host-1" }),
    anAttempt({ attempt: 2, outcome: "failed", reason: "exit code 1: no", worker: "host-2" }),
    anAttempt({ attempt: 3, worker: "host-3" }),
  ];
  const { container } = showStep(
    aDetail({ attempt: 3 }),
    {
      [`${BASE}/steps/tests/attempts`]: { items: attempts, next: null },
      [`${BASE}/steps/tests/attempts/1/output`]: output("of the first\n"),
      [`${BASE}/steps/tests/attempts/2/output`]: output("of the second\n"),
      [`${BASE}/steps/tests/attempts/3/output`]: output("of the third\n"),
    },
    "?view=attempts",
  );
  await screen.findByText("of the second");
  await screen.findByText("of the third");
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Attempt on the left" }), "attempt 1 · lost");
  await screen.findByText("of the first");
  expect(screen.queryByText("of the second")).toBeNull();
  expect(screen.getAllByText("host-1").length).toBeGreaterThan(0);
  await expectAccessible(container);
});

test("what a step has changed is a diff, and a step that has changed no code says so", async () => {
  const patch = "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n";
  const step = aDetail({ commit: "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d" });
  const changes = { task: TASK, base: "a", head: "b", files: [{ path: "a.py", insertions: 1, deletions: 1 }] };
  const first = showStep(step, { [`${BASE}/diff`]: changes, [`${BASE}/patch`]: new Response(patch) }, "?view=changes");
  await waitFor(() => expect(first.container.querySelector(".diff")).not.toBeNull());
  first.unmount();
  const refused = {
    type: "urn:longtask:problem:refused",
    title: "not now",
    status: 409,
    detail: "it has changed no code",
  };
  showStep(aDetail({ kind: "agent" }), { [`${BASE}/diff`]: Response.json(refused, { status: 409 }) }, "?view=changes");
  await screen.findByText("It has changed no code.");
});

test("a step that asks leads to its question", async () => {
  showStep(
    aDetail({
      kind: "approval",
      state: "waiting",
      waiting_for: "user",
      ended_at: null,
      question: { kind: "approval" },
    }),
    {
      [`${BASE}/why`]: {
        items: [{ what: "tests asks anybody: fine?", since: AT, help: [], step: "tests", who: [], details: [] }],
      },
    },
  );
  const link = await screen.findByRole("link", { name: "Look and decide" });
  expect(link.getAttribute("href")).toBe(`/tasks/${TASK}/steps/tests/approval`);
});
