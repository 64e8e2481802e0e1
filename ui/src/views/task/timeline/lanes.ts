/** A task's trace as lanes: of each stage and of each step when it was worked on, when it waited, and when it was ready
 * and nobody had taken it. */
import type { Span, Step, TaskTree } from "@/api/documents";
import type { Range } from "@/parts/time/scale";

/** `working`: an attempt ran; `waiting`: for a person, CI, a time ...; `merging`: its commit was joined to the head;
 * `queued`: it could have been claimed. */
export type PieceKind = "working" | "waiting" | "merging" | "queued";

/** `to` null: it goes on. */
export type Piece = {
  kind: PieceKind;
  from: number;
  to: number | null;
  /** What it waits for. */
  what: string;
  attempt: number | null;
  /** What an attempt came to; empty while it runs. */
  outcome: string;
  failed: boolean;
};

/** `to` null: it goes on. */
export type Reach = { from: number; to: number | null };
export type StageLane = { kind: "stage"; id: string; name: string; status: string; reach: Reach };
export type StepLane = {
  kind: "step";
  id: string;
  step: string;
  state: string;
  owner: string | null;
  pieces: readonly Piece[];
  /** What the steps that belong to it took in all; null: none does. */
  held: Reach | null;
};
export type Lane = StageLane | StepLane;

const MERGE = "merge";

function text(span: Span, name: string): string {
  const value = span.attributes[name];
  return typeof value === "string" ? value : "";
}

function pieceOf(span: Span): Piece {
  const about = { from: span.started_at, to: span.ended_at, failed: span.status === "error" };
  if (span.kind === "attempt") {
    return { ...about, kind: "working", what: "", attempt: span.attempt, outcome: text(span, "longtask.outcome") };
  }
  const what = text(span, "longtask.waiting_for");
  return { ...about, kind: what === MERGE ? "merging" : "waiting", what, attempt: null, outcome: "" };
}

function queuedBefore(span: Span): Piece | null {
  const ms = span.attributes["longtask.queued_ms"];
  if (span.kind !== "attempt" || typeof ms !== "number" || ms <= 0) return null;
  return {
    kind: "queued",
    from: span.started_at - ms,
    to: span.started_at,
    what: "",
    attempt: null,
    outcome: "",
    failed: false,
  };
}

/** What is known of each step that has begun, in the order of the plan. */
export function lanesOf(tree: TaskTree, spans: readonly Span[]): Lane[] {
  const pieces = new Map<string, Piece[]>();
  for (const span of spans) {
    if (span.step === null || (span.kind !== "attempt" && span.kind !== "wait")) continue;
    const own = pieces.get(span.step) ?? [];
    if (own.length === 0) pieces.set(span.step, own);
    const queued = queuedBefore(span);
    if (queued !== null) own.push(queued);
    own.push(pieceOf(span));
  }
  for (const step of tree.steps) {
    if (step.state !== "ready" || step.due_at === null) continue;
    const queued: Piece = {
      kind: "queued",
      from: step.due_at,
      to: null,
      what: "",
      attempt: null,
      outcome: "",
      failed: false,
    };
    pieces.set(step.key, [...(pieces.get(step.key) ?? []), queued]);
  }
  const lanes: Lane[] = [];
  tree.stages.forEach(({ name, status }, index) => {
    const own = tree.steps.flatMap((step) => {
      const found = pieces.get(step.key);
      return step.stage === index + 1 && found !== undefined ? [laneOf(step, found)] : [];
    });
    if (own.length > 0)
      lanes.push({ kind: "stage", id: `stage ${index + 1}`, name, status, reach: reachOf(own) }, ...underOwners(own));
  });
  return lanes;
}

function laneOf(step: Step, pieces: readonly Piece[]): StepLane {
  return {
    kind: "step",
    id: `step ${step.key}`,
    step: step.key,
    state: step.state,
    owner: step.owner,
    pieces,
    held: null,
  };
}

/** What belongs to a step stands below it, in one order with what belongs to that. */
function underOwners(lanes: readonly StepLane[]): StepLane[] {
  const known = new Map(lanes.map((lane) => [lane.step, lane]));
  const owned = new Map<string, StepLane[]>();
  for (const lane of lanes) {
    if (lane.owner === null || !known.has(lane.owner)) continue;
    const others = owned.get(lane.owner);
    if (others) others.push(lane);
    else owned.set(lane.owner, [lane]);
  }
  const placed: StepLane[] = [];
  const place = (lane: StepLane) => {
    const own = owned.get(lane.step);
    placed.push(own === undefined ? lane : { ...lane, held: reachOf(own) });
    own?.forEach(place);
  };
  for (const lane of lanes) if (lane.owner === null || !known.has(lane.owner)) place(lane);
  return placed;
}

function reachOf(lanes: readonly StepLane[]): Reach {
  const pieces = lanes.flatMap((lane) => lane.pieces);
  const from = pieces.reduce((least, piece) => Math.min(least, piece.from), Number.POSITIVE_INFINITY);
  const open = pieces.some((piece) => piece.to === null);
  return { from, to: open ? null : pieces.reduce((most, piece) => Math.max(most, piece.to ?? 0), 0) };
}

/** Those in which something went on in the range. */
export function lanesIn(lanes: readonly Lane[], range: Range, now: number): Lane[] {
  const meets = ({ from, to }: Reach) => from <= range.to && (to ?? now) >= range.from;
  return lanes.filter((lane) =>
    lane.kind === "stage" ? meets(lane.reach) : (lane.held !== null && meets(lane.held)) || lane.pieces.some(meets),
  );
}
