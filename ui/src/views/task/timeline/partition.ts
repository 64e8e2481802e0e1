/** A task's time, each moment counted once: for what it was, whatever else went on beside it. */
import type { Lane, PieceKind } from "./lanes";

/** The first of these that goes on is what a moment counts as; `idle`: none of them. */
export const ORDER = ["working", "merging", "waiting", "queued"] as const satisfies readonly PieceKind[];
export type MomentKind = PieceKind | "idle";

export type Moment = { kind: MomentKind; from: number; to: number };

/** Without gaps from `from` to `to`. */
export function partition(lanes: readonly Lane[], from: number, to: number): Moment[] {
  const turns: { at: number; kind: number; by: 1 | -1 }[] = [];
  for (const lane of lanes) {
    if (lane.kind !== "step") continue;
    for (const piece of lane.pieces) {
      const begin = Math.max(piece.from, from);
      const end = Math.min(piece.to ?? to, to);
      if (end <= begin) continue;
      const kind = ORDER.indexOf(piece.kind);
      turns.push({ at: begin, kind, by: 1 }, { at: end, kind, by: -1 });
    }
  }
  turns.sort((one, other) => one.at - other.at);
  const under: number[] = ORDER.map(() => 0);
  const moments: Moment[] = [];
  let since = from;
  const close = (at: number) => {
    if (at <= since) return;
    const kind = ORDER[under.findIndex((n) => n > 0)] ?? "idle";
    const last = moments.at(-1);
    if (last?.kind === kind) last.to = at;
    else moments.push({ kind, from: since, to: at });
    since = at;
  };
  for (const turn of turns) {
    close(turn.at);
    under[turn.kind] = (under[turn.kind] ?? 0) + turn.by;
  }
  close(to);
  return moments;
}

export type Totals = Readonly<Record<MomentKind, number>>;

/** ms of each kind; together the whole. */
export function totalsOf(moments: readonly Moment[]): Totals {
  const totals: Record<MomentKind, number> = { working: 0, merging: 0, waiting: 0, queued: 0, idle: 0 };
  for (const { kind, from, to } of moments) totals[kind] += to - from;
  return totals;
}

/** ms that all attempts have run, side by side or not. */
export function workOf(lanes: readonly Lane[], now: number): number {
  let sum = 0;
  for (const lane of lanes) {
    if (lane.kind !== "step") continue;
    for (const piece of lane.pieces) if (piece.kind === "working") sum += Math.max((piece.to ?? now) - piece.from, 0);
  }
  return sum;
}

/** Joins what is too short to be seen with what stands before it. */
export function visible(moments: readonly Moment[], least: number): Moment[] {
  const found: Moment[] = [];
  for (const moment of moments) {
    const last = found.at(-1);
    if (last !== undefined && moment.kind !== "working" && moment.to - moment.from < least) last.to = moment.to;
    else if (last?.kind === moment.kind) last.to = moment.to;
    else found.push({ ...moment });
  }
  return found;
}
