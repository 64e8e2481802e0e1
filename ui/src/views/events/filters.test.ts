import { expect, test } from "vitest";
import { anEvent } from "@/testing/samples";
import { entriesOf, filtersOf, typesOf } from "./filters";
import { toldOf } from "./told";

const EVENTS = [
  anEvent("longtask.started", { name: "shop", goal: "Move it" }, 1),
  anEvent("step.started", { step: "cart", attempt: 1, worker: "w-1" }, 2),
  anEvent("artifact.created", { step: "cart", name: "a.md" }, 3),
  anEvent("artifact.created", { step: "cart", name: "b.md" }, 3),
  anEvent("step.failed", { step: "lint", reason: "exit code 1: make lint\n3 problems" }, 4),
];
const filters = (address: string) => filtersOf(new URLSearchParams(address));

test("events are filtered by type, by family and by step, newest first", () => {
  const ids = (address: string) => entriesOf(EVENTS, filters(address)).map((entry) => entry.event.seq);
  expect(ids("")).toEqual([4, 3, 3, 2, 1]);
  expect(ids("order=oldest")).toEqual([1, 2, 3, 3, 4]);
  expect(ids("type=step.")).toEqual([4, 2]);
  expect(ids("type=step.failed&step=lin")).toEqual([4]);
  expect(ids("step=CART&order=oldest")).toEqual([2, 3, 3]);
  expect(typesOf(EVENTS)).toEqual({
    types: ["artifact.created", "longtask.started", "step.failed", "step.started"],
    families: ["step."],
  });
});

test("several events of one fact are told apart", () => {
  const ids = entriesOf(EVENTS, filters("")).map((entry) => entry.id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("an event is told in a few words", () => {
  expect(EVENTS.map(toldOf)).toEqual(["Move it", "attempt 1 on w-1", "a.md", "b.md", "exit code 1: 3 problems"]);
  expect(toldOf(anEvent("approval.required", { step: "x", question: { text: "Right?\nReally?" } }))).toBe("Right?");
  expect(
    toldOf(anEvent("approval.resolved", { step: "x", cause: { decision: "approve", by: "ann", text: "fine" } })),
  ).toBe("approve by ann (fine)");
  expect(toldOf(anEvent("longtask.recorded", { step: "x", tokens_in: 1_200, tokens_out: 3, model: "m" }))).toBe(
    "m: 1,200 tokens in, 3 out",
  );
  const near = (which: string, used: number, limit: number, of = {}) =>
    toldOf(anEvent("budget.near", { which, used, limit, ...of }));
  expect([near("tokens", 850, 1_000), near("micros", 500_000, 600_000), near("active_ms", 48_000, 60_000)]).toEqual([
    "850 of 1,000 tokens",
    "0.50 USD of 0.60 USD",
    "48s of 1m00s",
  ]);
  expect(near("tokens", 850, 1_000, { stage: "build", number: 2 })).toBe("build: 850 of 1,000 tokens");
});
