import { expect, test } from "vitest";
import { share, ticksOf, tickText, within, zoomed } from "./scale";

test("ticks are round, of their zero, and not too many", () => {
  const zero = 1_000_003;
  expect(ticksOf({ from: zero, to: zero + 4 * 3_600_000 }, zero, 8)).toEqual([
    0, 1_800_000, 3_600_000, 5_400_000, 7_200_000, 9_000_000, 10_800_000, 12_600_000, 14_400_000,
  ]);
  expect(ticksOf({ from: zero + 900, to: zero + 2_100 }, zero, 4)).toEqual([1_000, 1_500, 2_000]);
  for (const length of [1, 77, 5_000, 123_456, 9e7, 9e9, 9e12]) {
    expect(ticksOf({ from: zero, to: zero + length }, zero, 6).length).toBeLessThanOrEqual(7);
  }
});

test("ticks are said shortly", () => {
  expect([0, 200, 1_500, 60_000, 90_000, 5_400_000, 90_000_000].map(tickText)).toEqual([
    "0",
    "200ms",
    "1.5s",
    "1m",
    "1m 30s",
    "1h 30m",
    "1d 1h",
  ]);
});

test("a range stays inside the whole", () => {
  const whole = { from: 0, to: 1_000 };
  expect(within(whole, { from: -50, to: 50 })).toEqual({ from: 0, to: 100 });
  expect(within(whole, { from: 990, to: 990 })).toEqual({ from: 990, to: 1_000 });
  expect(zoomed(whole, { from: 400, to: 600 }, 0.5)).toEqual({ from: 450, to: 550 });
  expect(zoomed(whole, { from: 0, to: 600 }, 10)).toEqual(whole);
  expect([share(whole, -5), share(whole, 250), share(whole, 5_000)]).toEqual([0, 0.25, 1]);
});
