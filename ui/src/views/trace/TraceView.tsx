/** Where a task's time has gone: its spans as a waterfall. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import type { Trace } from "@/api/documents";
import { traceQuery } from "@/api/trace";
import { Asked } from "@/parts/Asked";
import { CopyText } from "@/parts/CopyText";
import { Empty } from "@/parts/Empty";
import { useNow } from "@/parts/now";
import { useTaskParam } from "@/parts/params";
import { RowTree } from "@/parts/RowTree";
import { percent, type Range, share } from "@/parts/time/scale";
import { TimeAxis, TimeLines } from "@/parts/time/TimeAxis";
import { TimeStrip } from "@/parts/time/TimeStrip";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { SpanDetail } from "./SpanDetail";
import { GRID, SpanLine } from "./SpanLine";
import { drawable, type Folds, rowsOf, type SpanRow, treeOf, wholeOf } from "./spans";

const ROW_PX = 28;
const APART = 600;

export function TraceView() {
  const trace = useQuery(traceQuery(useTaskParam()));
  return (
    <Asked query={trace}>
      {(shown) => (shown.spans.length === 0 ? <Empty title={t.trace.none} /> : <Waterfall trace={shown} />)}
    </Asked>
  );
}

function Waterfall({ trace }: { trace: Trace }) {
  const { spans } = trace;
  const clock = useNow();
  const over = useMemo(() => spans.every((span) => span.ended_at !== null), [spans]);
  const now = over ? 0 : clock;
  const [folds, setFolds] = useState<Folds>({});
  const [picked, setPicked] = useState<string | null>(null);
  const [chosen, setChosen] = useState<Range | null>(null);
  const tree = useMemo(() => treeOf(spans), [spans]);
  const rows = useMemo(() => rowsOf(tree, folds), [tree, folds]);
  const whole = useMemo(() => wholeOf(spans, now), [spans, now]);
  const range = chosen ?? whole;
  const fold = useCallback(
    (row: SpanRow, unfold: boolean) => setFolds((before) => ({ ...before, [row.id]: unfold })),
    [],
  );
  const shown = rows.find((row) => row.id === picked);
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-muted">
        <span>{t.trace.spans(spans.length)}</span>
        <span className="inline-flex items-center gap-1.5">
          {t.trace.id} <CopyText text={trace.trace_id} />
        </span>
      </div>
      <TimeStrip whole={whole} shown={range} onShow={setChosen}>
        <Attempts trace={trace} whole={whole} now={now} />
      </TimeStrip>
      <div className="flex flex-col gap-3 lg:flex-row lg:items-start">
        <div className="min-w-0 flex-1 rounded-lg border border-line bg-surface">
          <div className={`${GRID} sticky top-0 z-10 rounded-t-lg border-b border-line bg-surface text-muted`}>
            <span className="px-2 py-0.5">{t.trace.span}</span>
            <TimeAxis range={range} zero={whole.from} />
            <span className="py-0.5 pr-2 text-right">{t.trace.took}</span>
          </div>
          <RowTree<SpanRow>
            label={t.trace.label}
            rows={rows}
            idOf={(row) => row.id}
            rowPx={ROW_PX}
            levelOf={(row) => row.level}
            unfolded={(row) => row.unfolded}
            onFold={fold}
            onOpen={(row) => setPicked(row.id)}
            onPick={(row) => setPicked(row.id)}
            behind={
              <div className={`${GRID} h-full`}>
                <span />
                <div className="relative">
                  <TimeLines range={range} zero={whole.from} />
                </div>
              </div>
            }
            draw={(row) => <SpanLine row={row} range={range} now={now} chosen={row.id === picked} fold={fold} />}
          />
        </div>
        {shown === undefined ? null : (
          <div className="max-h-[45dvh] overflow-y-auto max-lg:sticky max-lg:bottom-16 lg:sticky lg:top-3 lg:max-h-[calc(100dvh-1.5rem)] lg:w-80 lg:shrink-0">
            <SpanDetail task={trace.task} row={shown} now={now} onClose={() => setPicked(null)} />
          </div>
        )}
      </div>
      {trace.cut ? <p className="text-muted">{t.trace.cut(count(spans.length), trace.handle)}</p> : null}
      {trace.dropped > 0 ? <p className="text-muted">{t.timeline.dropped(trace.dropped)}</p> : null}
    </div>
  );
}

function Attempts({ trace, whole, now }: { trace: Trace; whole: Range; now: number }) {
  const pieces = useMemo(
    () =>
      trace.spans
        .filter((span) => span.kind === "attempt")
        .map((span) => ({ from: span.started_at, to: span.ended_at })),
    [trace.spans],
  );
  return drawable(pieces, (whole.to - whole.from) / APART, now).map((piece) => {
    const left = share(whole, piece.from);
    return (
      <span
        key={piece.from}
        aria-hidden
        className="absolute inset-y-2 min-w-px bg-run"
        style={{ left: percent(left), width: percent(share(whole, piece.to) - left) }}
      />
    );
  });
}
