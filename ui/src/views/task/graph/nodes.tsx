/** What the graph is drawn of. */
import { Handle, Position } from "@xyflow/react";
import { ChevronDown } from "lucide-react";
import { memo, useContext, useEffect, useRef } from "react";
import { Link } from "react-router";
import { OVER, type Step } from "@/api/documents";
import { approvalAddress, stepAddress } from "@/parts/addresses";
import { KindMark } from "@/parts/KindMark";
import { StateMark, stateText } from "@/parts/State";
import { count } from "@/texts/format";
import { t, worded } from "@/texts/texts";
import { waitOf } from "@/views/task/tree/note";
import { LookingContext } from "./looking";
import type { GraphNode } from "./shape";
import { type Counts, useCounts, useStep } from "./steps";

export type NodeData = { node: GraphNode; task: string };
export type StageData = { name: string };

/** Beside a stage's name, px from its top. */
export const STAGE_ENDS = 20;

const BOX = "flex h-full w-full flex-col justify-center gap-0.5 rounded-lg border px-2.5 text-left outline-offset-2";
const EDGES: Readonly<Record<string, string>> = {
  running: "border-run",
  merging: "border-run",
  waiting: "border-wait",
  failed: "border-bad",
  cancelled: "border-bad",
  completed: "border-ok/60",
  ready: "border-line-strong",
};

/** Where edges end; nobody draws one by hand. */
function Ends({ top }: { top?: number }) {
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} className="opacity-0" style={{ top }} />
      <Handle type="source" position={Position.Right} isConnectable={false} className="opacity-0" style={{ top }} />
    </>
  );
}

export const StageBox = memo(function StageBox({ data }: { data: StageData }) {
  return (
    <div className="h-full w-full rounded-xl border border-line bg-raised/40 px-4 py-2">
      <Ends top={STAGE_ENDS} />
      <span className="font-semibold text-muted">{data.name}</span>
    </div>
  );
});

export const StepBox = memo(function StepBox({ data: { node, task } }: { data: NodeData }) {
  const step = useStep(node.step);
  const [ref, look] = useLooked<HTMLAnchorElement>(node.id);
  const state = step?.state ?? "blocked";
  const key = node.step ?? node.id;
  const asks = state === "waiting" && step?.waiting_for === "user";
  const note = step === undefined ? "" : noteOf(step);
  const quiet = state === "blocked" || state === "skipped";
  return (
    <>
      <Ends />
      <Link
        ref={ref}
        to={asks ? approvalAddress(task, key) : stepAddress(task, key)}
        {...look}
        className={`${BOX} ${EDGES[state] ?? "border-line"} ${state === "waiting" ? "bg-wait-soft" : "bg-surface"} ${look.className}`}
      >
        <span className="flex items-center gap-1.5">
          <StateMark state={state} />
          <KindMark kind={node.kind} />
          <span className={`truncate font-medium ${quiet ? "text-muted" : ""}`}>{key}</span>
          {note === "" ? null : <span className="sr-only">{stateText(state)}</span>}
        </span>
        <span className={`truncate pl-5 text-[0.9em] ${state === "waiting" ? "text-wait" : "text-muted"}`}>
          {note || stateText(state)}
        </span>
      </Link>
    </>
  );
});

/** What goes on in it; empty when its state says all. */
function noteOf(step: Step): string {
  if (step.state === "waiting") return waitOf(step);
  const { progress } = step;
  return step.state === "running" && progress !== null && progress.total > 0
    ? t.words.of(progress.done, progress.total)
    : "";
}

export const FoldBox = memo(function FoldBox({ data: { node } }: { data: NodeData }) {
  const own = useStep(node.step);
  const counts = useCounts(node.members);
  const { open } = useContext(LookingContext);
  const [ref, look] = useLooked<HTMLButtonElement>(node.id);
  const state = own?.state ?? counts[0]?.[0] ?? "blocked";
  const name = node.step ?? t.graph.alike(node.members.length, worded(t.words.kind, node.kind));
  return (
    <>
      <Ends />
      <button
        ref={ref}
        type="button"
        aria-haspopup="dialog"
        onClick={() => open(node.id)}
        {...look}
        className={`${BOX} bg-surface shadow-[3px_3px_0_var(--surface),4px_4px_0_var(--line-strong)] ${EDGES[state] ?? "border-line"} ${look.className}`}
      >
        <span className="flex items-center gap-1.5">
          <StateMark state={state} />
          <KindMark kind={node.kind} />
          <span className="min-w-0 flex-1 truncate font-medium">{name}</span>
          {own === undefined ? null : <span className="sr-only">{stateText(own.state)}</span>}
          <ChevronDown size={14} aria-hidden className="shrink-0 text-muted" />
        </span>
        <CountsBar counts={counts} />
        <CountsLine counts={counts} />
      </button>
    </>
  );
});

const TOLD_MAX = 3;
const TOLD: ReadonlySet<string> = new Set(["failed", "cancelled", "waiting", "running", "merging"]);

/** How many are over, and those that want a look. */
function CountsLine({ counts }: { counts: Counts }) {
  const all = counts.reduce((sum, [, n]) => sum + n, 0);
  const over = counts.reduce((sum, [state, n]) => sum + (OVER.has(state) ? n : 0), 0);
  return (
    <span className="flex gap-2.5 text-[0.9em] whitespace-nowrap text-muted tabular-nums">
      {t.words.of(over, all)}
      {counts
        .filter(([state]) => TOLD.has(state))
        .slice(0, TOLD_MAX)
        .map(([state, n]) => (
          <span key={state} title={stateText(state)} className="inline-flex items-center gap-1">
            <StateMark state={state} named />
            {count(n)}
          </span>
        ))}
    </span>
  );
}

const FILLS: Readonly<Record<string, string>> = {
  failed: "bg-bad",
  cancelled: "bg-bad",
  waiting: "bg-wait",
  running: "bg-run",
  merging: "bg-run",
  completed: "bg-ok",
  ready: "bg-line-strong",
};
const DONE_FIRST = ["completed", "failed", "cancelled", "running", "merging", "waiting", "ready"];

function CountsBar({ counts }: { counts: Counts }) {
  const all = counts.reduce((sum, [, n]) => sum + n, 0);
  const shown = DONE_FIRST.flatMap((state) => counts.filter(([word]) => word === state));
  return (
    <span aria-hidden className="flex h-1.5 overflow-hidden rounded-full bg-raised ring-1 ring-line ring-inset">
      {shown.map(([state, n]) => (
        <span key={state} className={`h-full ${FILLS[state]}`} style={{ width: `${(n / all) * 100}%` }} />
      ))}
    </span>
  );
}

/** Focus, fading, and who is looked at. */
function useLooked<E extends HTMLElement>(id: string) {
  const { current, moved, lit, become, hover } = useContext(LookingContext);
  const ref = useRef<E>(null);
  const own = current === id;
  useEffect(() => {
    if (own && moved.current) ref.current?.focus({ preventScroll: true });
  }, [own, moved]);
  const look = {
    tabIndex: own ? 0 : -1,
    className: lit !== null && !lit.has(id) ? "opacity-35" : "",
    onFocus: () => become(id),
    onMouseEnter: () => hover(id),
    onMouseLeave: () => hover(null),
  };
  return [ref, look] as const;
}
