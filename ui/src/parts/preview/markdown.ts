/** Markdown as a tree, the part of it that reports are written in.  Nothing is ever HTML: what looks like a tag is text,
 * and no picture is loaded, since whoever wrote it may be anybody. */

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "del"; children: Inline[] }
  /** `href`: of http, https or mailto, or null: it leads nowhere. */
  | { kind: "link"; href: string | null; children: Inline[] }
  | { kind: "image"; alt: string; href: string | null };

export type Align = "left" | "center" | "right" | null;

export type Block =
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; children: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: { checked: boolean | null; children: Block[] }[] }
  | { kind: "table"; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

const DEPTH_MAX = 12; // deeper nesting is text
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const UNDERLINE = /^ {0,3}(?:=+|-+)[ \t]*$/; // of a heading
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const ALIGNS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const TASK = /^\[([ xX])\] +/;

export function parseMarkdown(text: string): Block[] {
  return blocksOf(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), 0);
}

function blocksOf(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length > 0) blocks.push({ kind: "paragraph", children: inlinesOf(paragraph.join("\n").trim()) });
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      flush();
      at += 1;
    } else if (fence !== null) {
      flush();
      const end = endOfFence(lines, at, fence[1] ?? "");
      blocks.push({ kind: "code", language: fence[2] ?? "", text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
    } else if (heading !== null) {
      flush();
      blocks.push({ kind: "heading", level: heading[1]?.length ?? 1, children: inlinesOf(heading[2] ?? "") });
      at += 1;
    } else if (paragraph.length > 0 && UNDERLINE.test(line)) {
      blocks.push({
        kind: "heading",
        level: line.includes("=") ? 1 : 2,
        children: inlinesOf(paragraph.join("\n").trim()),
      });
      paragraph = [];
      at += 1;
    } else if (RULE.test(line)) {
      flush();
      blocks.push({ kind: "rule" });
      at += 1;
    } else if (depth < DEPTH_MAX && QUOTE.test(line)) {
      flush();
      let end = at;
      while (end < lines.length && QUOTE.test(lines[end] ?? "")) end += 1;
      const inner = lines.slice(at, end).map((one) => one.replace(QUOTE, ""));
      blocks.push({ kind: "quote", children: blocksOf(inner, depth + 1) });
      at = end;
    } else if (depth < DEPTH_MAX && ITEM.test(line) && (paragraph.length === 0 || !/^ {0,3}\d/.test(line))) {
      flush();
      const [list, end] = listAt(lines, at, depth);
      blocks.push(list);
      at = end;
    } else if (paragraph.length === 0 && isTable(line, lines[at + 1] ?? "")) {
      const [table, end] = tableAt(lines, at);
      blocks.push(table);
      at = end;
    } else if (paragraph.length === 0 && line.startsWith("    ")) {
      let end = at;
      while (end < lines.length && ((lines[end] ?? "").startsWith("    ") || (lines[end] ?? "").trim() === ""))
        end += 1;
      blocks.push({
        kind: "code",
        language: "",
        text: lines
          .slice(at, end)
          .map((one) => one.slice(4))
          .join("\n")
          .trimEnd(),
      });
      at = end;
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  flush();
  return blocks;
}

function endOfFence(lines: readonly string[], at: number, fence: string): number {
  for (let end = at + 1; end < lines.length; end += 1) {
    const line = (lines[end] ?? "").trim();
    if (line.startsWith(fence) && line.replaceAll(fence[0] ?? "`", "") === "") return end;
  }
  return lines.length;
}

function listAt(lines: readonly string[], start: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[start] ?? "");
  const ordered = /\d/.test(first?.[2] ?? "");
  const items: { checked: boolean | null; children: Block[] }[] = [];
  let at = start;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at] ?? "");
    if (found === null || /\d/.test(found[2] ?? "") !== ordered || RULE.test(lines[at] ?? "")) break;
    const indent = found[0].length + (found[3] === "" ? 1 : 0);
    const inner = [(lines[at] ?? "").slice(found[0].length)];
    at += 1;
    while (at < lines.length) {
      const line = lines[at] ?? "";
      const blank = line.trim() === "";
      const inside = line.startsWith(" ".repeat(Math.min(indent, 2)));
      if (
        blank
          ? !continues(lines, at, indent)
          : !inside &&
            (ITEM.test(line) || HEADING.test(line) || FENCE.test(line) || (lines[at - 1] ?? "").trim() === "")
      )
        break;
      inner.push(blank ? "" : line.slice(Math.min(indent, line.length - line.trimStart().length)));
      at += 1;
    }
    const task = TASK.exec(inner[0] ?? "");
    if (task !== null) inner[0] = (inner[0] ?? "").slice(task[0].length);
    items.push({ checked: task === null ? null : task[1] !== " ", children: blocksOf(inner, depth + 1) });
    while (at < lines.length && (lines[at] ?? "").trim() === "" && ITEM.test(lines[at + 1] ?? "")) at += 1;
  }
  return [{ kind: "list", ordered, start: Number.parseInt(first?.[2] ?? "1", 10) || 1, items }, at];
}

/** After a blank line an item goes on with what is indented. */
function continues(lines: readonly string[], at: number, indent: number): boolean {
  let next = at;
  while (next < lines.length && (lines[next] ?? "").trim() === "") next += 1;
  return (lines[next] ?? "").startsWith(" ".repeat(Math.min(indent, 2)));
}

function isTable(head: string, rule: string): boolean {
  return head.includes("|") && ALIGNS.test(rule) && cellsOf(head).length === cellsOf(rule).length;
}

function tableAt(lines: readonly string[], start: number): [Block, number] {
  const head = cellsOf(lines[start] ?? "");
  const align = cellsOf(lines[start + 1] ?? "").map((cell): Align => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : null;
  });
  const rows: Inline[][][] = [];
  let at = start + 2;
  while (at < lines.length && (lines[at] ?? "").trim() !== "" && (lines[at] ?? "").includes("|")) {
    const cells = cellsOf(lines[at] ?? "");
    rows.push(head.map((_, index) => inlinesOf(cells[index] ?? "")));
    at += 1;
  }
  return [{ kind: "table", align, head: head.map(inlinesOf), rows }, at];
}

function cellsOf(line: string): string[] {
  const inner = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/* One of these begins something; all else is text.  Each pattern looks so far and no further, and gives nothing back that
 * it has taken (`(?=(x))\1`), so that no text, whoever wrote it, takes long. */
const STARTS = /[\\`*_~![<h]/g;
const ESCAPED = /^\\([!-/:-@[-`{-~])/;
const CODE = /^(`+)([^`]|[^`][\s\S]{0,2000}?[^`])\1(?!`)/;
const STRONG = /^(\*\*|__)(?=\S)([\s\S]{0,999}?\S)\1/;
const EM = /^([*_])(?=[^\s*_])([\s\S]{0,999}?[^\s*_])\1(?![\w*_])/;
const DEL = /^~~(?=\S)([\s\S]{0,999}?\S)~~/;
const LINK =
  /^(!?)\[(?=([^\]\n]{0,500}))\2\]\(<?(?=([^\s)>]{0,2000}))\3>?(?: {1,9}(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'))? {0,9}\)/;
const AUTO = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/;
const BARE = /^https?:\/\/[^\s<>"')\]]{1,2000}/;

export function inlinesOf(text: string, depth = 0): Inline[] {
  const found: Inline[] = [];
  const say = (piece: string) => {
    const last = found.at(-1);
    if (piece === "") return;
    if (last?.kind === "text") last.text += piece;
    else found.push({ kind: "text", text: piece });
  };
  let at = 0;
  while (at < text.length) {
    STARTS.lastIndex = at;
    const next = STARTS.exec(text)?.index ?? text.length;
    say(text.slice(at, next));
    if (next === text.length) break;
    const [made, length] = startAt(text, next, depth);
    if (typeof made === "string") say(made);
    else found.push(made);
    at = next + length;
  }
  return found;
}

/** What begins there, and how much of the text it takes. */
function startAt(text: string, at: number, depth: number): [Inline | string, number] {
  const rest = text.slice(at, at + 8_000);
  const inner = (piece: string) =>
    depth < DEPTH_MAX ? inlinesOf(piece, depth + 1) : [{ kind: "text", text: piece } as const];
  const inWord = /\w/.test(text[at - 1] ?? "");
  let found: RegExpExecArray | null;
  if ((found = ESCAPED.exec(rest))) return [found[1] ?? "", found[0].length];
  if ((found = CODE.exec(rest)))
    return [{ kind: "code", text: (found[2] ?? "").replace(/^ (.*) $/s, "$1") }, found[0].length];
  if (!(inWord && rest.startsWith("_"))) {
    if ((found = STRONG.exec(rest))) return [{ kind: "strong", children: inner(found[2] ?? "") }, found[0].length];
    if ((found = EM.exec(rest))) return [{ kind: "em", children: inner(found[2] ?? "") }, found[0].length];
  }
  if ((found = DEL.exec(rest))) return [{ kind: "del", children: inner(found[1] ?? "") }, found[0].length];
  if ((found = LINK.exec(rest))) {
    const href = safe(found[3] ?? "");
    if (found[1] === "!") return [{ kind: "image", alt: found[2] ?? "", href }, found[0].length];
    return [{ kind: "link", href, children: inner(found[2] ?? "") }, found[0].length];
  }
  if ((found = AUTO.exec(rest))) return [linkTo(found[1] ?? ""), found[0].length];
  if (!inWord && (found = BARE.exec(rest))) {
    const href = found[0].replace(/[.,:;!?]+$/, "");
    return [linkTo(href), href.length];
  }
  const run = /^(`+|\*+|_+|~+)/.exec(rest)?.[0].length ?? 1; // marks that close nothing are text, all at once
  return [rest.slice(0, run), run];
}

function linkTo(href: string): Inline {
  return { kind: "link", href: safe(href), children: [{ kind: "text", text: href }] };
}

/** Only what opens a page or a letter; a script, a file or data never. */
export function safe(href: string): string | null {
  return /^(https?:\/\/|mailto:)/i.test(href) && URL.canParse(href) ? href : null;
}
