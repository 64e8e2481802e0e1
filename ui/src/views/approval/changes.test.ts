import { expect, test } from "vitest";
import { anApproval } from "@/testing/samples";
import { programOf, shownOf } from "./asked";
import { changesOf, marksOf } from "./changes";

const asking = (show: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  anApproval({ question: { kind: "approval", text: "Fine?", show, ...more } });

test("what differs is told in words, and something always is", () => {
  const artifact = { name: "report.md", digest: "a", size_bytes: 1, media_type: "text/markdown", step: "report" };
  const seen = asking({ artifacts: [artifact, { ...artifact, name: "old.md" }], files: ["a"] });
  const now = asking({ artifacts: [{ ...artifact, digest: "b" }], files: ["a", "b"] });
  expect(changesOf(seen, now)).toEqual([
    "Artifact report.md is another one.",
    "Artifact old.md is not shown any more.",
    "Other files are shown.",
  ]);
  expect(changesOf(seen, seen)).toEqual(["It is asked anew; what is shown is the same."]);
});

test("files with other changes are marked, whatever their blobs are called", () => {
  const patch = (line: string, blob: string, name = "a") =>
    `diff --git a/${name} b/${name}\nindex ${blob}..2 100644\n--- a/${name}\n+++ b/${name}\n@@ -1 +1 @@\n-one\n+${line}\n`;
  const seen = patch("two", "1") + patch("same", "3", "b");
  const now = patch("three", "1") + patch("same", "4", "b") + patch("new", "5", "c");
  expect([...marksOf(seen, now)]).toEqual([
    ["a", "changed since"],
    ["c", "was not there"],
  ]);
});

test("the arguments of a call stand below `args`, or beside its name", () => {
  const call = (show: Record<string, unknown>) => shownOf(asking({ call: show })).call;
  expect(call({ name: "shell", args: { command: "make" } })).toEqual({ name: "shell", args: { command: "make" } });
  expect(call({ name: "Bash", command: "make" })).toEqual({ name: "Bash", args: { command: "make" } });
});

test("a query is SQL when it reads like it", () => {
  expect(programOf({ name: "db", args: { query: "  SELECT 1", limit: 3 } })).toEqual({
    kind: "sql",
    text: "  SELECT 1",
    rest: { limit: 3 },
  });
  expect(programOf({ name: "search", args: { query: "where is it" } })).toBeNull();
});
