/** A span: its name under its parent's, its bar on the axis, and how long it took. */
import { Bot, ChevronRight, Flag, Hourglass, Layers, type LucideIcon, MessageSquare, Play, Wrench } from "lucide-react";
import { memo } from "react";
import type { Span } from "@/api/documents";
import { KindMark } from "@/parts/KindMark";
import { percent, type Range, share } from "@/parts/time/scale";
import { duration } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { attribute, endOf, nameOf } from "./names";
import { drawable, type SpanRow } from "./spans";

export const GRID = "grid grid-cols-[9rem_1fr_4rem] items-stretch sm:grid-cols-[19rem_1fr_5rem]";
const LEAST = 0.0006; // of the axis: what is shorter still shows
const APART = 400; // so many pieces of a bar can be told apart

const ICONS: Readonly<Record<string, LucideIcon>> = {
  task: Flag,
  stage: Layers,
  wait: Hourglass,
  attempt: Play,
  run: Bot,
  turn: MessageSquare,
  tool: Wrench,
};

type Props = {
  row: SpanRow;
  range: Range;
  now: number;
  chosen: boolean;
  fold: (row: SpanRow, unfold: boolean) => void;
};

export const SpanLine = memo(function SpanLine({ row, range, now, chosen, fold }: Props) {
  const { span, level, unfolded } = row;
  const end = endOf(span);
  const bad = span.status === "error";
  const to = span.ended_at ?? now;
  const strong = span.kind === "task" || span.kind === "stage";
  return (
    <div className={`${GRID} h-full ${chosen ? "bg-accent-soft" : ""}`}>
      <div className="flex min-w-0 items-center gap-1.5 pr-2" style={{ paddingLeft: `${(level - 1) * 14 + 4}px` }}>
        {unfolded === undefined ? (
          <span className="w-4 shrink-0" />
        ) : (
          <button
            type="button"
            tabIndex={-1}
            aria-label={unfolded ? t.tree.fold : t.tree.unfold}
            onClick={(event) => {
              event.stopPropagation();
              fold(row, !unfolded);
            }}
            className="shrink-0 rounded text-muted hover:text-ink"
          >
            <ChevronRight size={16} aria-hidden className={unfolded ? "rotate-90" : ""} />
          </button>
        )}
        <SpanMark span={span} />
        <span className={`truncate ${strong ? "font-medium" : ""}`} title={span.name}>
          {nameOf(span)}
        </span>
        {end === "" ? null : <span className={`truncate ${bad ? "text-bad" : "text-muted"}`}>{end}</span>}
      </div>
      <div className="relative overflow-hidden">
        <Bar row={row} range={range} now={now} to={to} />
      </div>
      <div
        className={`flex items-center justify-end pr-2 tabular-nums ${span.ended_at === null ? "text-run" : "text-muted"}`}
      >
        {duration(to - span.started_at, span.ended_at === null)}
        {span.ended_at === null ? <span className="sr-only">, {t.words.state.running}</span> : null}
      </div>
    </div>
  );
});

export function SpanMark({ span }: { span: Span }) {
  if (span.kind === "step") return <KindMark kind={attribute(span, "longtask.step.kind")} />;
  const Icon = ICONS[span.kind] ?? Flag;
  return <Icon size={14} role="img" aria-label={worded(t.trace.kinds, span.kind)} className="shrink-0 text-muted" />;
}

const WAIT = "bg-[repeating-linear-gradient(135deg,var(--wait)_0_1.5px,var(--wait-soft)_1.5px_6px)]";

function Bar({ row, range, now, to }: { row: SpanRow; range: Range; now: number; to: number }) {
  const { span, worked, unfolded } = row;
  if (to < range.from || span.started_at > range.to) return null;
  const bad = span.status === "error";
  const full =
    span.kind === "wait"
      ? WAIT
      : bad
        ? "bg-bad"
        : span.kind === "turn" || span.kind === "tool"
          ? "bg-accent"
          : "bg-run";
  const soft =
    span.kind === "wait" || unfolded === undefined
      ? full
      : bad
        ? "bg-bad-soft outline outline-bad"
        : "bg-run-soft outline outline-run/50";
  return (
    <>
      <Piece range={range} from={span.started_at} to={to} look={`top-2 h-3 rounded-[3px] -outline-offset-1 ${soft}`} />
      {span.kind === "wait"
        ? null
        : drawable(worked, (range.to - range.from) / APART, now).map((piece) => (
            <Piece
              key={piece.from}
              range={range}
              from={Math.max(piece.from, span.started_at)}
              to={Math.min(piece.to, to)}
              look={`top-2 h-3 rounded-[3px] ${full}`}
            />
          ))}
    </>
  );
}

function Piece({ range, from, to, look }: { range: Range; from: number; to: number; look: string }) {
  if (to < range.from || from > range.to) return null;
  const left = share(range, from);
  return (
    <span
      aria-hidden
      className={`absolute min-w-0.5 ${look}`}
      style={{ left: percent(Math.min(left, 1 - LEAST)), width: percent(Math.max(share(range, to) - left, LEAST)) }}
    />
  );
}
