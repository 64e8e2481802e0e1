import { expect, test } from "vitest";
import type { OutputChunk } from "@/api/documents";
import { makeLines, textOf } from "./lines";
import { find, NOTHING, placesOf } from "./search";

let n = 0;
function chunk(text: string, more: Partial<OutputChunk> = {}): OutputChunk {
  n += 1;
  return { n, at: 0, stream: "out", text, ...more };
}

function linesOf(...chunks: OutputChunk[]) {
  const lines = makeLines();
  lines.add(chunks);
  return lines.all;
}

const texts = (...chunks: OutputChunk[]) => textOf(linesOf(...chunks), "[gap]").split("\n");

test("chunks end anywhere, lines at their ends", () => {
  expect(texts(chunk("a\nb"), chunk("c\n"), chunk("\nd\r\n"))).toEqual(["a", "bc", "", "d"]);
});

test("of an overwritten line the last state is shown", () => {
  expect(texts(chunk("10%\r50%\r"), chunk("100%\ndone"))).toEqual(["100%", "done"]);
});

test("what another stream says begins a line of its own", () => {
  const lines = linesOf(chunk("a"), chunk("goes on\n", { stream: "note" }), chunk("b\n"));
  expect(lines.map((line) => [line.stream, line.text])).toEqual([
    ["out", "a"],
    ["note", "goes on"],
    ["out", "b"],
  ]);
});

test("a gap in the numbers is told", () => {
  n += 1;
  const first = chunk("a\n");
  n += 5;
  expect(texts(first, chunk("z\n"))).toEqual(["a", "[gap]", "z"]);
});

test("100,000 lines are read and searched", () => {
  const lines = makeLines();
  for (let at = 0; at < 100; at += 1) {
    lines.add([
      chunk(Array.from({ length: 1_000 }, (_, index) => `\x1b[32mPASSED\x1b[0m test_${at * 1_000 + index}\n`).join("")),
    ]);
  }
  expect(lines.all).toHaveLength(100_000);
  const found = find(lines.all, "TEST_99999", NOTHING);
  expect(found.at).toEqual([99_999]);
});

test("a search goes on where it was, and sees a line that has grown", () => {
  const lines = makeLines();
  lines.add([chunk("no\nye")]);
  const first = find(lines.all, "yes", NOTHING);
  expect(first.at).toEqual([]);
  lines.add([chunk("s\nyes\n")]);
  const second = find(lines.all, "yes", first);
  expect(second.at).toEqual([1, 2]);
  expect(find(lines.all, "no", second).at).toEqual([0]);
  expect(placesOf("Yes, yes", "yes")).toEqual([
    [0, 3],
    [5, 8],
  ]);
});
