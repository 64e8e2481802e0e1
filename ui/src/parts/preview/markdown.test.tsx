import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { Markdown } from "./Markdown";
import { type Block, inlinesOf, parseMarkdown, safe } from "./markdown";

const kinds = (text: string) => parseMarkdown(text).map((block: Block) => block.kind);

test("blocks are told apart", () => {
  expect(
    kinds(
      "# One\ntext\nmore\n\n- a\n- b\n\n1. c\n\n> q\n\n---\n\n```py\nx = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |",
    ),
  ).toEqual(["heading", "paragraph", "list", "list", "quote", "rule", "code", "table"]);
  expect(kinds("```\nnever closed\n# no heading")).toEqual(["code"]);
  expect(kinds("a | b without a rule\nis text")).toEqual(["paragraph"]);
  expect(kinds("Under\n=====\ntext\n\nLined\n---")).toEqual(["heading", "paragraph", "heading"]);
});

test("lists nest, hold what is indented, and tell what is done", () => {
  const [list] = parseMarkdown("- [x] one\n  - inner\n\n  more\n- [ ] two\n\nafter");
  expect(list).toMatchObject({
    kind: "list",
    items: [
      {
        checked: true,
        children: [{ kind: "paragraph" }, { kind: "list", items: [{ checked: null }] }, { kind: "paragraph" }],
      },
      { checked: false, children: [{ kind: "paragraph" }] },
    ],
  });
  expect(kinds("- a\n\nafter")).toEqual(["list", "paragraph"]);
});

test("inside a line", () => {
  expect(inlinesOf("a **b *c*** `d*` snake_case_name \\*e\\*").map((one) => one.kind)).toEqual([
    "text",
    "strong",
    "text",
    "code",
    "text",
  ]);
  expect(inlinesOf("snake_case_name")).toEqual([{ kind: "text", text: "snake_case_name" }]);
  expect(inlinesOf("see https://example.org/a.")).toEqual([
    { kind: "text", text: "see " },
    { kind: "link", href: "https://example.org/a", children: [{ kind: "text", text: "https://example.org/a" }] },
    { kind: "text", text: "." },
  ]);
});

test("nothing that is written becomes HTML, loads a picture or runs", async () => {
  const evil =
    '<script>x</script> <img src=x onerror=y> ![pic](https://example.org/p.png) [go](javascript:alert(1)) [d](data:text/html,x) <b>bold</b>\n\n<iframe src="x"></iframe>';
  const { container } = render(<Markdown text={evil} />);
  expect(container.querySelectorAll("img, script, iframe, b")).toHaveLength(0);
  expect([...container.querySelectorAll("a")].map((link) => link.getAttribute("href"))).toEqual([
    "https://example.org/p.png",
  ]);
  expect(screen.getByRole("link").getAttribute("rel")).toContain("noopener");
  expect(container.textContent).toContain("<script>x</script>");
  await expectAccessible(container);
});

test("only addresses of pages and letters lead anywhere", () => {
  expect(
    ["https://a.b", "mailto:a@b.c", "javascript:x", "JAVASCRIPT:x", "//a.b", "/v1/tasks", "file:///x", "data:,x"].map(
      safe,
    ),
  ).toEqual(["https://a.b", "mailto:a@b.c", null, null, null, null, null, null]);
});

test("what is made to take long does not", () => {
  for (const text of [
    "*".repeat(50_000),
    "[".repeat(50_000),
    "`".repeat(50_000),
    "a**b".repeat(10_000),
    "> ".repeat(5_000),
    "- ".repeat(20_000),
    "![](".repeat(10_000),
    "_a ".repeat(10_000),
  ]) {
    const began = process.cpuUsage(); // not the clock: the machine may be busy with much else
    parseMarkdown(text);
    const { user, system } = process.cpuUsage(began);
    expect((user + system) / 1_000, text.slice(0, 8)).toBeLessThan(1_500);
  }
});
