// @vitest-environment node
import { expect, test } from "vitest";
import { bytes, duration, gist, money } from "./format";

test("durations are written as on the command line", () => {
  const found = [0, 4_250, 9_960, 75_000, 3_725_000, 97_200_000].map((ms) => duration(ms));
  expect(found).toEqual(["0.0s", "4.3s", "10s", "1m15s", "1h02m", "1d3h"]);
  expect(duration(4_900, true)).toBe("4s");
});

test("of a failure is told how it ended and the last that was said", () => {
  expect(gist("exit code 1: make test\nlong\n=== 2 failed ===")).toBe("exit code 1: 2 failed");
  expect(gist("no worker came")).toBe("no worker came");
  expect(gist("it cannot be added:\nstep 'x' is there\nno 'y'\n")).toBe(
    "it cannot be added: step 'x' is there (and 1 more)",
  );
  expect(gist("it cannot be added:\nno 'y'")).toBe("it cannot be added: no 'y'");
  expect(gist(null)).toBe("");
});

test("sizes and amounts", () => {
  expect([12, 1_500, 25_300_000].map(bytes)).toEqual(["12 B", "1.5 kB", "25 MB"]);
  expect(money(1_234_567)).toBe("1.23 USD");
});
