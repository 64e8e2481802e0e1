/** Instants on an axis. */

/** ms since 1970 UTC; `to` lies behind `from`. */
export type Range = { from: number; to: number };

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((n) => n * DAY),
];

/** Where an instant stands, 0 to 1; what lies outside stands at the nearer end. */
export function share(range: Range, at: number): number {
  return Math.min(Math.max((at - range.from) / (range.to - range.from), 0), 1);
}

export function percent(of: number): string {
  return `${(of * 100).toFixed(3)}%`;
}

/** ms after `zero` that are round, inside the range, at most `most` of them. */
export function ticksOf(range: Range, zero: number, most: number): number[] {
  const length = range.to - range.from;
  const step = STEPS.find((one) => length / one <= most) ?? length / most;
  const found: number[] = [];
  for (let at = Math.ceil((range.from - zero) / step) * step; at <= range.to - zero; at += step) found.push(at);
  return found;
}

/** A tick, as short as it can be said. */
export function tickText(ms: number): string {
  if (ms < 0) return `−${tickText(-ms)}`;
  if (ms === 0) return "0";
  if (ms < SECOND) return `${ms}ms`;
  const parts: string[] = [];
  let left = ms;
  for (const [unit, name] of [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "m"],
  ] as const) {
    const whole = Math.floor(left / unit);
    if (whole > 0) parts.push(`${whole}${name}`);
    left -= whole * unit;
  }
  if (left > 0 && ms < HOUR) parts.push(`${Number((left / SECOND).toFixed(3))}s`);
  return parts.slice(0, 2).join(" ");
}

const LENGTH_MIN_MS = 10;

/** A range inside `whole`, of a length that can be drawn. */
export function within(whole: Range, range: Range): Range {
  const longest = whole.to - whole.from;
  const length = Math.min(Math.max(range.to - range.from, Math.min(LENGTH_MIN_MS, longest)), longest);
  const from = Math.min(Math.max(range.from, whole.from), whole.to - length);
  return { from, to: from + length };
}

/** The same middle, so many times as long. */
export function zoomed(whole: Range, range: Range, times: number): Range {
  const middle = (range.from + range.to) / 2;
  const half = ((range.to - range.from) * times) / 2;
  return within(whole, { from: middle - half, to: middle + half });
}
