import { expect, test } from "vitest";
import type { Span } from "@/api/documents";
import { aboutOf, runOfSpans, runOfTranscript, sumOf, type Turn } from "./run";

const ROWS = [
  { step: "cart", run: 1, attempt: 2, note: "a recording" },
  { n: 1, kind: "told", name: "", body: { text: "Move cart.py to httpx." } },
  {
    n: 2,
    kind: "turn",
    name: "model-a",
    body: {
      text: "I look.",
      calls: [
        { tool: "read", args: { path: "cart.py" } },
        { tool: "shell", args: { command: "make test" } },
      ],
    },
  },
  { n: 3, kind: "tool", name: "read", body: { text: "import requests", failed: false } },
  { n: 4, kind: "asked", name: "shell", body: { decision: "approve", by: "ann", text: "go on" } },
  {
    n: 5,
    kind: "tool",
    name: "shell",
    attempt: 2,
    tokens_in: 0,
    tokens_out: 0,
    micros: 0,
    body: { text: "1 failed", failed: true, tree: "ab12" },
  },
  {
    n: 6,
    kind: "turn",
    name: "model-a",
    attempt: 2,
    tokens_in: 1_200,
    tokens_out: 30,
    micros: 4_000,
    body: { text: "Done.", calls: [], outputs: { summary: "moved" } },
  },
];

const transcript = (rows: unknown[] = ROWS) => rows.map((row) => JSON.stringify(row)).join("\n");

test("a transcript is told as turns, each call with its decision and its result", () => {
  const run = runOfTranscript(`${transcript()}\n{"n": 7, "kind": "tu`);
  expect(run.note).toBe("a recording");
  expect(run.entries.map((entry) => entry.kind)).toEqual(["told", "turn", "turn"]);
  const [read, shell] = (run.entries[1] as Turn).uses;
  expect(read).toMatchObject({ name: "read", text: "import requests", failed: false, decided: null });
  expect(shell).toMatchObject({ name: "shell", text: "1 failed", failed: true, decided: "ann: approve, go on" });
  expect((run.entries[2] as Turn).outputs).toEqual({ summary: "moved" });
});

test("the checkpoint is the newest call that has kept the files", () => {
  expect(runOfTranscript(transcript()).checkpoint).toEqual({ n: 5, tree: "ab12" });
  expect(runOfTranscript(transcript(ROWS.slice(0, 4))).checkpoint).toBeNull();
});

test("what is not known of usage is not counted as nothing", () => {
  expect(sumOf(runOfTranscript(transcript()))).toEqual({
    turns: 2,
    uses: 2,
    tokensIn: 1_200,
    tokensOut: 30,
    micros: 4_000,
    partial: true,
    unpriced: false,
  });
});

test("an agent that keeps its own session tells its calls without their turns, and its session to nobody", () => {
  const run = runOfTranscript(
    transcript([
      { n: 1, kind: "tool", name: "session", body: { id: "s" } },
      { n: 2, kind: "tool", name: "edit", body: { id: "c", text: "edited", failed: false } },
    ]),
  );
  expect(run.entries).toHaveLength(1);
  expect((run.entries[0] as Turn).uses.map((use) => use.name)).toEqual(["edit"]);
  expect(sumOf(run).turns).toBe(0);
});

test("spans of an attempt that goes on are turns without words", () => {
  const span = (kind: string, more: Partial<Span>): Span => ({
    span_id: String(more.started_at),
    parent_id: null,
    kind,
    name: kind,
    step: "cart",
    attempt: 2,
    started_at: 0,
    ended_at: null,
    status: null,
    attributes: {},
    ...more,
  });
  const run = runOfSpans(
    [
      span("run", {}),
      span("turn", {
        started_at: 1,
        ended_at: 4,
        attributes: { "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2 },
      }),
      span("tool", { started_at: 5, attributes: { "gen_ai.tool.name": "shell" } }),
      span("turn", { attempt: 1 }),
    ],
    "cart",
    2,
  );
  expect(run.entries).toHaveLength(1);
  expect(run.entries[0]).toMatchObject({ model: "m", tookMs: 3, usage: { tokensIn: 7, tokensOut: 2, micros: null } });
  expect((run.entries[0] as Turn).uses[0]).toMatchObject({ name: "shell", running: true });
});

test("a call is about its command, its path, or what else it holds", () => {
  expect(aboutOf({ command: "make" })).toBe("make");
  expect(aboutOf({ limit: 3 })).toBe('{"limit":3}');
  expect(aboutOf(null)).toBe("");
});
