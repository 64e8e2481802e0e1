// @vitest-environment node
import { expect, test } from "vitest";
import { messageReader } from "./sse";

const STREAM =
  'retry: 1000\n\nid: 4\nevent: event\ndata: {"a":1}\n\n: beat\n\nid: 5\n\nevent: progress\ndata: 1\ndata: 2\n\n';

test("messages come out whole, however the stream is cut", () => {
  const whole = messageReader()(STREAM);
  for (const size of [1, 2, 3, 7, 50]) {
    const read = messageReader();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...read(STREAM.slice(at, at + size)));
    expect(found).toEqual(whole);
  }
  expect(whole).toEqual([
    { id: "4", event: "event", data: '{"a":1}' },
    { id: "5", event: "", data: null },
    { id: null, event: "progress", data: "1\n2" },
  ]);
});

test("lines may end in CR LF, cut between the two", () => {
  const read = messageReader();
  expect([...read("data: x\r"), ...read("\n\r\n")]).toEqual([{ id: null, event: "message", data: "x" }]);
});
