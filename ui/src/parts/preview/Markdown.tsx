/** A report as it is meant to be read. */
import { Fragment, memo, type ReactNode, useMemo } from "react";
import { t } from "@/texts/texts";
import { type Align, type Block, type Inline, parseMarkdown } from "./markdown";

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return (
    <div className="flex flex-col gap-3 leading-relaxed *:not-[div]:max-w-prose">
      <Blocks blocks={blocks} />
    </div>
  );
});

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return blocks.map((block, index) => <OneBlock key={index} block={block} />);
}

const HEADINGS = ["text-lg font-semibold", "text-base font-semibold", "font-semibold"] as const;

function OneBlock({ block }: { block: Block }): ReactNode {
  switch (block.kind) {
    case "heading": {
      const Level = `h${Math.min(block.level + 2, 6)}` as "h3"; // the page's own headings stand above
      return (
        <Level className={`mt-1 ${HEADINGS[block.level - 1] ?? "font-semibold text-muted"}`}>
          <Inlines inlines={block.children} />
        </Level>
      );
    }
    case "paragraph":
      return (
        <p className="break-words">
          <Inlines inlines={block.children} />
        </p>
      );
    case "code":
      return (
        <pre
          tabIndex={0}
          className="overflow-x-auto rounded border border-line bg-ground p-2.5 font-mono text-[0.93em] leading-normal"
        >
          {block.text}
        </pre>
      );
    case "quote":
      return (
        <blockquote className="flex flex-col gap-2 border-l-2 border-line-strong pl-3 text-muted">
          <Blocks blocks={block.children} />
        </blockquote>
      );
    case "list":
      return <List block={block} />;
    case "table":
      return <Rows block={block} />;
    case "rule":
      return <hr className="border-line" />;
  }
}

function List({ block }: { block: Extract<Block, { kind: "list" }> }) {
  const items = block.items.map((item, index) => (
    <li key={index} className={item.checked === null ? "" : "-ml-5 list-none"}>
      <div className="flex gap-2">
        {item.checked === null ? null : (
          <input
            type="checkbox"
            checked={item.checked}
            disabled
            aria-label={item.checked ? t.preview.checked : t.preview.unchecked}
            className="mt-1.5 self-start"
          />
        )}
        <div className="flex min-w-0 flex-1 flex-col gap-1.5">
          <Blocks blocks={item.children} />
        </div>
      </div>
    </li>
  ));
  return block.ordered ? (
    <ol start={block.start} className="flex list-decimal flex-col gap-1 pl-6">
      {items}
    </ol>
  ) : (
    <ul className="flex list-disc flex-col gap-1 pl-5">{items}</ul>
  );
}

const ALIGNS: Readonly<Record<string, string>> = { left: "text-left", center: "text-center", right: "text-right" };

function Rows({ block }: { block: Extract<Block, { kind: "table" }> }) {
  const look = (index: number) => `border border-line px-2 py-1 ${ALIGNS[(block.align[index] as Align) ?? "left"]}`;
  return (
    <div className="overflow-x-auto" tabIndex={0} role="group" aria-label={t.preview.table}>
      <table className="border-collapse">
        <thead>
          <tr>
            {block.head.map((cell, index) =>
              cell.length === 0 ? (
                <td key={index} className={`bg-raised ${look(index)}`} />
              ) : (
                <th key={index} scope="col" className={`bg-raised font-medium ${look(index)}`}>
                  <Inlines inlines={cell} />
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, index) => (
                <td key={index} className={`${look(index)} ${lengthOf(cell) <= SHORT ? "whitespace-nowrap" : ""}`}>
                  <Inlines inlines={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const SHORT = 24; // letters that stand on one line

function lengthOf(inlines: readonly Inline[]): number {
  return inlines.reduce(
    (sum, one) => sum + ("text" in one ? one.text.length : "children" in one ? lengthOf(one.children) : one.alt.length),
    0,
  );
}

function Inlines({ inlines }: { inlines: readonly Inline[] }) {
  return inlines.map((inline, index) => <Fragment key={index}>{inlineOf(inline)}</Fragment>);
}

function inlineOf(inline: Inline): ReactNode {
  switch (inline.kind) {
    case "text":
      return inline.text;
    case "code":
      return <code className="rounded bg-raised px-1 py-0.5 font-mono text-[0.93em]">{inline.text}</code>;
    case "strong":
      return (
        <strong>
          <Inlines inlines={inline.children} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines inlines={inline.children} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines inlines={inline.children} />
        </del>
      );
    case "link":
      return inline.href === null ? (
        <Inlines inlines={inline.children} />
      ) : (
        outward(inline.href, <Inlines inlines={inline.children} />)
      );
    case "image": {
      const text = t.preview.image(inline.alt);
      return inline.href === null ? text : outward(inline.href, text);
    }
  }
}

/** The title says where it leads: the text is somebody's word. */
function outward(href: string, children: ReactNode) {
  return (
    <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow" className="text-accent underline">
      {children}
    </a>
  );
}
