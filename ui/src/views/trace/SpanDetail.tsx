/** What is known of one span. */
import { X } from "lucide-react";
import { Link } from "react-router";
import { stepAddress } from "@/parts/addresses";
import { Fact } from "@/parts/Fact";
import { duration, instant } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { nameOf } from "./names";
import { SpanMark } from "./SpanLine";
import { gapOf, type SpanRow } from "./spans";

type Props = { task: string; row: SpanRow; now: number; onClose: () => void };

export function SpanDetail({ task, row, now, onClose }: Props) {
  const { span } = row;
  const gap = gapOf(row, now);
  return (
    <aside aria-label={t.trace.detail} className="flex flex-col gap-3 rounded-lg border border-line bg-surface p-3">
      <header className="flex items-start gap-2">
        <span className="mt-0.5">
          <SpanMark span={span} />
        </span>
        <h2 className="min-w-0 flex-1 font-semibold break-words">
          {span.step === null || span.kind === "step" ? nameOf(span) : `${span.step} · ${nameOf(span)}`}
        </h2>
        <button
          type="button"
          aria-label={t.parts.close}
          onClick={onClose}
          className="rounded p-0.5 text-muted hover:text-ink"
        >
          <X size={16} aria-hidden />
        </button>
      </header>
      <dl className="grid grid-cols-[auto_1fr] gap-x-3 gap-y-1">
        <Fact name={t.trace.kind}>{worded(t.trace.kinds, span.kind)}</Fact>
        <Fact name={t.trace.began} className="tabular-nums">
          {instant(span.started_at)}
        </Fact>
        <Fact name={t.trace.ended} className="tabular-nums">
          {span.ended_at === null ? t.trace.goesOn : instant(span.ended_at)}
        </Fact>
        <Fact name={t.trace.took} className="tabular-nums">
          {duration((span.ended_at ?? now) - span.started_at)}
        </Fact>
        {gap === null ? null : (
          <Fact name={t.trace.gaps} className="tabular-nums" title={t.trace.gapsHint}>
            {duration(gap)}
          </Fact>
        )}
      </dl>
      <dl className="flex flex-col gap-1.5 border-t border-line pt-3">
        {Object.entries(span.attributes).map(([name, value]) => (
          <div key={name}>
            <dt className="text-xs break-all text-muted">{name}</dt>
            <dd className="font-mono text-[0.93em] break-words whitespace-pre-wrap">
              {typeof value === "string" ? value : JSON.stringify(value)}
            </dd>
          </div>
        ))}
      </dl>
      {span.step === null ? null : (
        <Link
          to={stepAddress(task, span.step) + (span.attempt === null ? "" : `?attempt=${span.attempt}`)}
          className="self-start font-medium text-accent underline"
        >
          {t.trace.open}
        </Link>
      )}
    </aside>
  );
}
