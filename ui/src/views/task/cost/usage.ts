/** What a task has used, summed up from what its journal tells of calls. */
import type { JournalEvent } from "@/api/documents";

export type Usage = {
  /** Millionths of a dollar, of the calls that have a price. */
  micros: number;
  tokensIn: number;
  tokensOut: number;
  calls: number;
  /** Calls of which no price is known, and their tokens. */
  unpriced: number;
  unpricedTokens: number;
};

export type StepUsage = Usage & { step: string; attempts: number };
export type ModelUsage = Usage & { model: string; runtime: string };
export type Sums = { all: Usage; steps: StepUsage[]; models: ModelUsage[] };

const RECORDED = "longtask.recorded";
const STARTED = "step.started";
/** All that is needed of a journal. */
export const COUNTED: readonly string[] = [RECORDED, STARTED];

export function none(): Usage {
  return { micros: 0, tokensIn: 0, tokensOut: 0, calls: 0, unpriced: 0, unpricedTokens: 0 };
}

export function tokensOf(usage: Usage): number {
  return usage.tokensIn + usage.tokensOut;
}

/** Sorted by what they cost, then by tokens. */
export function sumUp(events: readonly JournalEvent[]): Sums {
  const all = none();
  const steps = new Map<string, StepUsage & { seen: Set<number> }>();
  const models = new Map<string, ModelUsage>();
  const runtimes = new Map<string, string>();
  for (const { type, data } of events) {
    const step = text(data.step);
    if (type === STARTED && text(data.runtime)) runtimes.set(step, text(data.runtime));
    if (type !== RECORDED) continue;
    const model = text(data.model);
    const runtime = runtimes.get(step) ?? "";
    const ofStep = found(steps, step, () => ({ ...none(), step, attempts: 0, seen: new Set<number>() }));
    const ofModel = found(models, `${runtime}\n${model}`, () => ({ ...none(), model, runtime }));
    ofStep.seen.add(number(data.attempt));
    for (const usage of [all, ofStep, ofModel]) add(usage, data);
  }
  return {
    all,
    steps: [...steps.values()].map(({ seen, ...usage }) => ({ ...usage, attempts: seen.size })).sort(dearest),
    models: [...models.values()].sort(dearest),
  };
}

function add(usage: Usage, data: Readonly<Record<string, unknown>>): void {
  const tokensIn = number(data.tokens_in);
  const tokensOut = number(data.tokens_out);
  usage.calls += 1;
  usage.tokensIn += tokensIn;
  usage.tokensOut += tokensOut;
  if (typeof data.micros === "number") usage.micros += data.micros;
  else {
    usage.unpriced += 1;
    usage.unpricedTokens += tokensIn + tokensOut;
  }
}

function dearest(one: Usage, other: Usage): number {
  return other.micros - one.micros || tokensOf(other) - tokensOf(one);
}

function found<V>(map: Map<string, V>, key: string, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
