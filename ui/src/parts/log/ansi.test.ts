import { expect, test } from "vitest";
import { classOf, PLAIN, penBehind, plain, spansOf } from "./ansi";

const ESC = "\x1b";

function shown(line: string, pen = PLAIN): [string, string][] {
  return spansOf(line, pen).map((span) => [span.text, classOf(span.pen)]);
}

test("colours become those of the page, and end where they end", () => {
  expect(shown(`${ESC}[32mPASSED${ESC}[0m test_a`)).toEqual([
    ["PASSED", "text-ok"],
    [" test_a", ""],
  ]);
  expect(shown(`${ESC}[1;31mE${ESC}[22m x${ESC}[39m y`)).toEqual([
    ["E", "text-bad font-semibold"],
    [" x", "text-bad"],
    [" y", ""],
  ]);
});

test("a colour goes on in the next line", () => {
  const pen = penBehind(`${ESC}[33mwarning:`, PLAIN);
  expect(shown("of two lines", pen)).toEqual([["of two lines", "text-wait"]]);
});

test("256 colours and all colours are told by the nearest", () => {
  expect(shown(`${ESC}[38;5;196mred`)).toEqual([["red", "text-bad"]]);
  expect(shown(`${ESC}[38;2;20;200;40mgreen`)).toEqual([["green", "text-ok"]]);
  expect(shown(`${ESC}[38;5;240mgray ${ESC}[48;5;21mon blue`)).toEqual([
    ["gray ", "text-muted"],
    ["on blue", "text-muted bg-raised"],
  ]);
});

test("what moves a cursor, titles, links and controls are left out", () => {
  const line = `${ESC}[2K${ESC}]0;title\x07a${ESC}]8;;http://x/${ESC}\\b${ESC}(B\x07${ESC}[?25lc`;
  expect(shown(line)).toEqual([
    ["a", ""],
    ["b", ""],
    ["c", ""],
  ]);
  expect(plain(line)).toBe("abc");
});
