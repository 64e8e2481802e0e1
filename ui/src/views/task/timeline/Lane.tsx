/** One step on the time axis: a bar for each attempt, and what lay between them. */
import { memo } from "react";
import { Link } from "react-router";
import { stepAddress } from "@/parts/addresses";
import { StateMark, stateText } from "@/parts/State";
import { percent, type Range, share } from "@/parts/time/scale";
import { duration } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import type { Piece, Reach, StageLane, StepLane } from "./lanes";
import { FAILED, LOOKS, SHAPES } from "./looks";

export const LANE = "grid grid-cols-[7rem_1fr] items-stretch sm:grid-cols-[15rem_1fr]";
const LEAST = 0.0004; // of the axis: what is shorter still shows

type StageProps = { lane: StageLane; range: Range; now: number };

export function StageRow({ lane, range, now }: StageProps) {
  return (
    <div className={`${LANE} h-full bg-raised/60`}>
      <div className="flex min-w-0 items-center gap-2 px-2">
        <StateMark state={lane.status} />
        <span className="truncate font-semibold">{lane.name}</span>
      </div>
      <div className="relative overflow-hidden">
        <Bracket reach={lane.reach} range={range} now={now} />
      </div>
    </div>
  );
}

/** From the first to the last of what stands below it. */
function Bracket({ reach, range, now }: { reach: Reach; range: Range; now: number }) {
  const to = reach.to ?? now;
  if (to < range.from || reach.from > range.to) return null;
  const left = share(range, reach.from);
  return (
    <span
      aria-hidden
      className="absolute top-3 h-1.5 border-x-2 border-t-2 border-line-strong"
      style={{ left: percent(left), width: percent(share(range, to) - left) }}
    />
  );
}

type StepProps = { task: string; lane: StepLane; range: Range; now: number };

export const StepRow = memo(function StepRow({ task, lane, range, now }: StepProps) {
  return (
    <div className={`${LANE} h-full`}>
      <div className={`flex min-w-0 items-center gap-2 pr-2 ${lane.owner !== null ? "pl-6" : "pl-2"}`}>
        <StateMark state={lane.state} />
        <Link tabIndex={-1} to={stepAddress(task, lane.step)} title={lane.step} className="truncate hover:underline">
          {lane.step}
        </Link>
        <span className="sr-only">{said(lane, now)}</span>
      </div>
      <div className="relative overflow-hidden">
        {lane.held === null ? null : <Bracket reach={lane.held} range={range} now={now} />}
        {lane.pieces.map((piece) => (
          <Bar key={`${piece.kind} ${piece.from}`} piece={piece} range={range} now={now} />
        ))}
      </div>
    </div>
  );
});

function Bar({ piece, range, now }: { piece: Piece; range: Range; now: number }) {
  const to = Math.max(piece.to ?? now, piece.from);
  if (to < range.from || piece.from > range.to) return null;
  const left = share(range, piece.from);
  const width = Math.max(share(range, to) - left, LEAST);
  const look = piece.failed && piece.kind === "working" ? FAILED : LOOKS[piece.kind];
  const open = piece.to === null ? "rounded-r-none" : "";
  return (
    <span
      aria-hidden
      title={pieceText(piece, to)}
      className={`absolute min-w-0.5 ${SHAPES[piece.kind]} ${look} ${open}`}
      style={{ left: percent(left), width: percent(width) }}
    />
  );
}

function pieceText(piece: Piece, to: number): string {
  const took = duration(to - piece.from);
  if (piece.kind === "working") {
    const outcome = piece.to === null ? t.words.state.running : worded(t.words.outcome, piece.outcome);
    return t.timeline.attempt(piece.attempt ?? 0, outcome ?? "", took);
  }
  return t.timeline.piece(
    t.timeline.kinds[piece.kind],
    piece.kind === "waiting" ? worded(t.timeline.waits, piece.what) : "",
    took,
  );
}

/** For those who do not see the bars. */
function said(lane: StepLane, now: number): string {
  return [stateText(lane.state), ...lane.pieces.map((piece) => pieceText(piece, piece.to ?? now))].join(", ");
}
