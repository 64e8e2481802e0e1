import { expect, test } from "vitest";
import { type Comment, commentsText, decisionText, withComment } from "./comments";

const late: Comment = { path: "shop/base.py", line: 12, side: "new", text: "why?" };
const early: Comment = { path: "shop/base.py", line: 3, side: "old", text: "keep this\nit is public" };

test("comments travel as `path:line: text` in the order of their places", () => {
  const comments = withComment(withComment([], late), early);
  expect(commentsText(comments)).toBe("shop/base.py:-3: keep this\n  it is public\nshop/base.py:12: why?");
  expect(decisionText(" Not yet. ", comments)).toBe(`Not yet.\n\n${commentsText(comments)}`);
  expect(decisionText("", comments)).toBe(commentsText(comments));
  expect(decisionText("fine", [])).toBe("fine");
});

test("a line has one comment, and an empty one takes it away", () => {
  const changed = withComment([late], { ...late, text: "because" });
  expect(changed).toEqual([{ ...late, text: "because" }]);
  expect(withComment(changed, { ...late, text: " " })).toEqual([]);
});
