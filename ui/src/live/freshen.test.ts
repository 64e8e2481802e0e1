import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { keys } from "@/api/keys";
import { anEvent, TASK } from "@/testing/samples";
import { makeFreshener } from "./freshen";
import { touched } from "./touched";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

async function watched(answer: () => Promise<unknown>) {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  const asked = vi.fn(answer);
  const stop = new QueryObserver(client, { queryKey: keys.tree(TASK), queryFn: asked }).subscribe(() => {});
  await vi.advanceTimersByTimeAsync(1_000);
  asked.mockClear();
  return { client, asked, stop };
}

test("the first event is followed at once, a hundred a second not more often than every 250 ms", async () => {
  const { client, asked, stop } = await watched(async () => 1);
  const freshen = makeFreshener(client);
  freshen(touched(anEvent("step.completed", { step: "a" })));
  await vi.advanceTimersByTimeAsync(1);
  expect(asked).toHaveBeenCalledTimes(1);
  for (let n = 0; n < 100; n += 1) {
    freshen(touched(anEvent("step.completed", { step: "a" })));
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(asked.mock.calls.length).toBeLessThanOrEqual(5);
  await vi.advanceTimersByTimeAsync(1_000);
  const settled = asked.mock.calls.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(settled);
  stop();
});

test("what changed while an answer was on its way is asked for again", async () => {
  let state = 1;
  const { client, stop } = await watched(async () => {
    const seen = state;
    await new Promise((resolve) => setTimeout(resolve, 400));
    return seen;
  });
  const freshen = makeFreshener(client);
  freshen([keys.tree(TASK)]);
  await vi.advanceTimersByTimeAsync(100);
  state = 2;
  freshen([keys.tree(TASK)]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(client.getQueryData(keys.tree(TASK))).toBe(2);
  stop();
});

test("a first answer that was on its way when an event came is asked for again", async () => {
  let state = 1;
  const client = new QueryClient();
  const slow = async () => {
    const seen = state;
    await new Promise((resolve) => setTimeout(resolve, 400));
    return seen;
  };
  const stop = new QueryObserver(client, { queryKey: keys.tree(TASK), queryFn: slow }).subscribe(() => {});
  await vi.advanceTimersByTimeAsync(100);
  state = 2;
  makeFreshener(client)([keys.tree(TASK)]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(client.getQueryData(keys.tree(TASK))).toBe(2);
  stop();
});

test("an event touches its task and its step, and no other", () => {
  const found = touched(anEvent("step.completed", { step: "tests" }));
  expect(found).toContainEqual(keys.tree(TASK));
  expect(found).toContainEqual(keys.step(TASK, "tests"));
  expect(found).toContainEqual(keys.approvals);
  expect(found).not.toContainEqual(keys.graph(TASK));
  expect(touched(anEvent("step.added", { steps: ["x"] }))).toContainEqual(keys.graph(TASK));
});
