import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, show } from "@/testing/render";
import { FleetView } from "./FleetView";

const WORKER = {
  id: "w-1",
  host: "box",
  pid: 7,
  version: "1.2",
  pools: ["default", "gpu"],
  slots: 4,
  running: 3,
  started_at: Date.now() - 60_000,
  seen_at: Date.now(),
  lag_ms: 1_200,
  alive: true,
};

test("workers and pools are told, and what nobody works on with the command that helps", async () => {
  answerWith({
    "GET /v1/fleet": {
      workers: [WORKER, { ...WORKER, id: "w-2", alive: false, lag_ms: 45_000, version: null }],
      pools: [
        { pool: "default", workers: 1, slots: 4, ready: 2, oldest_ready_ms: 3_000 },
        { pool: "big", workers: 0, slots: 0, ready: 5, oldest_ready_ms: 90_000 },
        { pool: "system", workers: 1, slots: null, ready: 0, oldest_ready_ms: null },
      ],
    },
  });
  const { container } = show(<FleetView />, "/fleet", "/fleet");
  const workers = await screen.findByRole("region", { name: "Workers" });
  expect(within(workers).getByText("dead")).toBeTruthy();
  expect(within(workers).getAllByText("box:7")).toHaveLength(2);
  expect(within(workers).getAllByText("3 / 4")).toHaveLength(2);
  const pools = screen.getByRole("region", { name: "Pools" });
  expect(within(pools).getByText("1m30s").className).toContain("text-wait");
  expect(screen.getByText(/Nobody serves the pool big, for which 5 steps wait/)).toBeTruthy();
  expect(screen.getByText("longtask worker --pool big")).toBeTruthy();
  await expectAccessible(container);
});

test("without a worker it is said how to start one", async () => {
  answerWith({ "GET /v1/fleet": { workers: [], pools: [] } });
  show(<FleetView />, "/fleet", "/fleet");
  await screen.findByText("longtask worker");
});
