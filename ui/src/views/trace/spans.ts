/** The spans of a trace as the rows of a waterfall. */
import type { Span } from "@/api/documents";
import type { Range } from "@/parts/time/scale";

export type SpanRow = {
  id: string;
  span: Span;
  level: number;
  /** Undefined: there is nothing below it. */
  unfolded: boolean | undefined;
  /** When something below it was worked on; null as an end: it goes on. */
  worked: readonly Piece[];
};

export type Piece = { from: number; to: number | null };

/** By span: what a person has chosen. */
export type Folds = Readonly<Record<string, boolean>>;

const OUTER: ReadonlySet<string> = new Set(["task", "stage", "step"]); // below an attempt stand its calls, which are many

export type SpanTree = {
  roots: readonly Span[];
  below: ReadonlyMap<string, readonly Span[]>;
  worked: ReadonlyMap<string, readonly Piece[]>;
};

/** What has lost its parent stands below the task. */
export function treeOf(spans: readonly Span[]): SpanTree {
  const known = new Set(spans.map((span) => span.span_id));
  const task = spans.find((span) => span.kind === "task");
  const roots: Span[] = [];
  const below = new Map<string, Span[]>();
  for (const span of spans) {
    const parent =
      span.parent_id !== null && known.has(span.parent_id) ? span.parent_id : span === task ? undefined : task?.span_id;
    if (parent === undefined) roots.push(span);
    else {
      const others = below.get(parent);
      if (others) others.push(span);
      else below.set(parent, [span]);
    }
  }
  const worked = new Map<string, readonly Piece[]>();
  for (const root of roots) workOf(root, below, worked);
  return { roots, below, worked };
}

/** What has nothing below it is work by itself, but for a wait.  Notes what it finds of each span in `worked`. */
function workOf(
  span: Span,
  below: ReadonlyMap<string, readonly Span[]>,
  worked: Map<string, readonly Piece[]>,
): readonly Piece[] {
  const children = below.get(span.span_id);
  if (children === undefined) {
    const works = span.kind !== "wait" && !OUTER.has(span.kind);
    return works ? [{ from: span.started_at, to: span.ended_at }] : [];
  }
  const found = joined(children.flatMap((child) => workOf(child, below, worked)));
  worked.set(span.span_id, found);
  return found;
}

/** Those that touch become one. */
function joined(spans: readonly Piece[]): Piece[] {
  const pieces: Piece[] = [];
  for (const { from, to } of spans.toSorted((one, other) => one.from - other.from)) {
    const last = pieces.at(-1);
    if (last === undefined || (last.to !== null && last.to < from)) pieces.push({ from, to });
    else if (last.to !== null && (to === null || to > last.to)) last.to = to;
  }
  return pieces;
}

export function rowsOf(tree: SpanTree, folds: Folds): SpanRow[] {
  const rows: SpanRow[] = [];
  const add = (span: Span, level: number): void => {
    const { span_id: id } = span;
    const children = tree.below.get(id) ?? [];
    const unfolded = children.length === 0 ? undefined : (folds[id] ?? OUTER.has(span.kind));
    rows.push({ id, span, level, unfolded, worked: tree.worked.get(id) ?? [] });
    if (unfolded) for (const child of children) add(child, level + 1);
  };
  for (const root of tree.roots) add(root, 1);
  return rows;
}

/** From the first beginning to the last end. */
export function wholeOf(spans: readonly Span[], now: number): Range {
  let from = Number.POSITIVE_INFINITY;
  let to = 0;
  for (const span of spans) {
    from = Math.min(from, span.started_at);
    to = Math.max(to, span.ended_at ?? now);
  }
  return { from, to: Math.max(to, from + 1) };
}

/** ms in which it went on, and nothing below it was worked on; null: nothing stands below it. */
export function gapOf(row: SpanRow, now: number): number | null {
  if (row.unfolded === undefined) return null;
  const { started_at: from, ended_at: ended } = row.span;
  const to = ended ?? now;
  const within = row.worked.reduce(
    (sum, piece) => sum + Math.max(Math.min(piece.to ?? now, to) - Math.max(piece.from, from), 0),
    0,
  );
  return Math.max(to - from - within, 0);
}

/** Pieces that are nearer than `least` ms become one: nobody could tell them apart. */
export function drawable(pieces: readonly Piece[], least: number, now: number): Range[] {
  const found: Range[] = [];
  for (const piece of pieces) {
    const to = piece.to ?? now;
    const last = found.at(-1);
    if (last !== undefined && piece.from - last.to < least) last.to = Math.max(last.to, to);
    else found.push({ from: piece.from, to });
  }
  return found;
}
