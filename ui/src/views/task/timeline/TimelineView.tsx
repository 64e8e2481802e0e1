/** When a task was worked on, and when it waited: one row a step, one bar an attempt, on one axis. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useNavigate } from "react-router";
import type { TaskTree, Trace } from "@/api/documents";
import { treeQuery } from "@/api/tasks";
import { traceQuery } from "@/api/trace";
import { Asked } from "@/parts/Asked";
import { stepAddress } from "@/parts/addresses";
import { Empty } from "@/parts/Empty";
import { useNow } from "@/parts/now";
import { useTaskParam } from "@/parts/params";
import { RowTree } from "@/parts/RowTree";
import type { Range } from "@/parts/time/scale";
import { TimeAxis, TimeLines } from "@/parts/time/TimeAxis";
import { TimeStrip } from "@/parts/time/TimeStrip";
import { t } from "@/texts/texts";
import { LANE, StageRow, StepRow } from "./Lane";
import { type Lane, lanesIn, lanesOf } from "./lanes";
import { Overview } from "./Overview";
import { partition, totalsOf, workOf } from "./partition";
import { Totals } from "./Totals";

const ROW_PX = 28;

export function TimelineView() {
  const task = useTaskParam();
  const tree = useQuery(treeQuery(task));
  const trace = useQuery(traceQuery(task));
  if (!tree.data) return null;
  const shown = tree.data;
  return <Asked query={trace}>{(spans) => <Timeline tree={shown} trace={spans} />}</Asked>;
}

function Timeline({ tree, trace }: { tree: TaskTree; trace: Trace }) {
  const clock = useNow();
  const now = tree.ended_at ?? Math.max(clock, tree.created_at + 1);
  const lanes = useMemo(() => lanesOf(tree, trace.spans), [tree, trace.spans]);
  const [chosen, setChosen] = useState<Range | null>(null);
  const whole = useMemo(
    () => ({ from: tree.created_at, to: Math.max(now, tree.created_at + 1) }),
    [tree.created_at, now],
  );
  const range = chosen ?? whole;
  const moments = useMemo(() => partition(lanes, whole.from, whole.to), [lanes, whole]);
  const rows = useMemo(() => (chosen === null ? lanes : lanesIn(lanes, chosen, now)), [lanes, chosen, now]);
  const navigate = useNavigate();
  if (lanes.length === 0) return <Empty title={t.timeline.none}>{t.timeline.noneWhy}</Empty>;
  return (
    <div className="flex flex-col gap-3">
      <Totals totals={totalsOf(moments)} work={workOf(lanes, now)} />
      <TimeStrip whole={whole} shown={range} onShow={setChosen}>
        <Overview moments={moments} whole={whole} />
      </TimeStrip>
      <div className="rounded-lg border border-line bg-surface">
        <div className={`${LANE} sticky top-0 z-10 rounded-t-lg border-b border-line bg-surface`}>
          <span className="px-2 py-0.5 text-muted">{t.timeline.step}</span>
          <TimeAxis range={range} zero={whole.from} />
        </div>
        <RowTree<Lane>
          label={t.timeline.label}
          rows={rows}
          idOf={(lane) => lane.id}
          rowPx={ROW_PX}
          levelOf={(lane) => (lane.kind === "stage" ? 1 : 2)}
          onOpen={(lane) => {
            if (lane.kind === "step") void navigate(stepAddress(tree.id, lane.step));
          }}
          behind={
            <div className={`${LANE} h-full`}>
              <span />
              <div className="relative">
                <TimeLines range={range} zero={whole.from} />
              </div>
            </div>
          }
          draw={(lane) =>
            lane.kind === "stage" ? (
              <StageRow lane={lane} range={range} now={now} />
            ) : (
              <StepRow task={tree.id} lane={lane} range={range} now={now} />
            )
          }
        />
      </div>
      <Missing trace={trace} />
    </div>
  );
}

function Missing({ trace }: { trace: Trace }) {
  if (!trace.cut && trace.dropped === 0) return null;
  return (
    <p className="text-muted">{trace.cut ? t.timeline.cut(trace.spans.length) : t.timeline.dropped(trace.dropped)}</p>
  );
}
