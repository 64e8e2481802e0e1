/** One line of output. */
import { memo } from "react";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { classOf, type Span, spansOf } from "./ansi";
import type { Line } from "./lines";
import { placesOf } from "./search";

const SHOWN_CHARS_MAX = 4_000;

type Props = { line: Line; number: number; digits: number; words: string; current: boolean; wrap: boolean };

export const LogLine = memo(function LogLine({ line, number, digits, words, current, wrap }: Props) {
  return (
    <div className={`flex ${current ? "bg-accent-soft" : "hover:bg-raised"}`}>
      <span
        aria-hidden
        className="sticky left-0 shrink-0 bg-surface pr-3 pl-3 text-right text-muted select-none"
        style={{ width: `calc(${digits}ch + 1.5rem)` }}
      >
        {number}
      </span>
      <span
        className={`${wrap ? "min-w-0 flex-1 break-all whitespace-pre-wrap" : "whitespace-pre"} ${INKS[line.stream]} pr-3`}
      >
        {line.stream === "gap" ? t.log.gap : <Text line={line} words={words} />}
      </span>
    </div>
  );
});

const INKS: Readonly<Record<Line["stream"], string>> = {
  out: "",
  err: "text-bad",
  note: "text-muted italic",
  gap: "text-wait italic",
};

function Text({ line, words }: { line: Line; words: string }) {
  const spans = spansOf(line.text.slice(0, SHOWN_CHARS_MAX), line.pen);
  const more = line.text.length - SHOWN_CHARS_MAX;
  const shown = words === "" ? spans.map((span) => ({ ...span, found: false })) : marked(spans, words);
  return (
    <>
      {shown.map(({ text, pen, found }, index) =>
        found ? (
          <mark key={index} className="rounded-xs bg-wait text-ground">
            {text}
          </mark>
        ) : (
          <span key={index} className={classOf(pen)}>
            {text}
          </span>
        ),
      )}
      {shown.length === 0 ? " " : null}
      {more > 0 ? <span className="text-muted italic"> {t.log.cut(count(more))}</span> : null}
    </>
  );
}

/** The pieces, cut where the words that were looked for begin and end. */
function marked(spans: readonly Span[], words: string): (Span & { found: boolean })[] {
  const places = placesOf(spans.map((span) => span.text).join(""), words);
  const cuts = places.flat();
  const shown: (Span & { found: boolean })[] = [];
  let start = 0;
  for (const { text, pen } of spans) {
    const end = start + text.length;
    const edges = [start, ...cuts.filter((cut) => cut > start && cut < end), end];
    for (let i = 0; i + 1 < edges.length; i += 1) {
      const from = edges[i] ?? 0;
      const to = edges[i + 1] ?? 0;
      const found = places.some(([first, last]) => first <= from && to <= last);
      shown.push({ text: text.slice(from - start, to - start), pen, found });
    }
    start = end;
  }
  return shown;
}
