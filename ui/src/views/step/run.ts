/** An agent's run as turns: what it was told, what its model said, the tools that it called and what those answered. */
import type { Span, TurnEntry } from "@/api/documents";

export type Usage = { tokensIn: number; tokensOut: number; micros: number | null };
export type ToolUse = {
  name: string;
  args: unknown;
  /** What it answered; null: that is not known, or not yet. */
  text: string | null;
  failed: boolean;
  /** What a person has decided about it. */
  decided: string | null;
  tookMs: number | null;
  running: boolean;
};
export type Told = { kind: "told"; n: number; text: string };
export type Turn = {
  kind: "turn";
  n: number;
  model: string;
  text: string;
  uses: ToolUse[];
  /** Null: of an earlier attempt, whose usage is not told. */
  usage: Usage | null;
  outputs: unknown;
  tookMs: number | null;
};
export type Run = {
  entries: (Told | Turn)[];
  /** What kind of run it is, if somebody ought to know. */
  note: string | null;
  /** The newest state of the files that a next attempt would go on from: after which call, and as which tree. */
  checkpoint: { n: number; tree: string } | null;
  /** The model that is asked just now. */
  asking: string | null;
};

type Words = Readonly<Record<string, unknown>>;
const SESSION = "session"; // rows that keep an agent's own session tell nothing to people

function anEmptyRun(): Run {
  return { entries: [], note: null, checkpoint: null, asking: null };
}

/** From its calls so far, as they are told while it runs. */
export function runOfRows(rows: readonly TurnEntry[]): Run {
  const run = anEmptyRun();
  for (const row of rows) {
    if (row.body !== null) addRow(run, row);
    else if (row.kind === "turn") run.asking = row.name;
    else if (row.kind === "tool") useFor(run, row.n, row.name, (use) => use.text === null).running = true;
  }
  return run;
}

/** From the transcript that an attempt has left: a line for each call. */
export function runOfTranscript(text: string): Run {
  const run = anEmptyRun();
  for (const line of text.split("\n")) {
    const row = parsed(line);
    if (row === null) continue;
    if (row.n === undefined) run.note = textIn(row, "note") || null;
    else addRow(run, row);
  }
  return run;
}

function addRow(run: Run, row: Words): void {
  const n = Number(row.n);
  const name = textIn(row, "name");
  const body = mapIn(row, "body");
  const tree = textIn(body, "tree");
  if (tree !== "") run.checkpoint = { n, tree };
  switch (row.kind) {
    case "told":
      run.entries.push({ kind: "told", n, text: textIn(body, "text") });
      break;
    case "turn":
      run.entries.push({
        kind: "turn",
        n,
        model: name,
        text: textIn(body, "text"),
        uses: listIn(body, "calls").map((call) => aUse(textIn(call, "tool"), call.args)),
        usage: usageOf(row),
        outputs: filled(body.outputs) ? body.outputs : null,
        tookMs: tookOf(row),
      });
      break;
    case "asked":
      useFor(run, n, name, (use) => use.decided === null && use.text === null).decided = decisionOf(body);
      break;
    case "tool":
    case "spawned": {
      if (name === SESSION || typeof body.text !== "string") break;
      const use = useFor(run, n, name || "spawn", (one) => one.text === null);
      use.text = body.text;
      use.failed = body.failed === true;
      use.tookMs = tookOf(row);
      break;
    }
  }
}

/** The call that a row answers: the first that is open, of that name if there is one; else one of its own. */
function useFor(run: Run, n: number, name: string, open: (use: ToolUse) => boolean): ToolUse {
  const uses = lastTurn(run, n).uses;
  const waiting = uses.filter(open);
  const found = waiting.find((use) => use.name === name) ?? waiting[0];
  if (found !== undefined) return found;
  const made = aUse(name, null);
  uses.push(made);
  return made;
}

function lastTurn(run: Run, n: number): Turn {
  const last = run.entries.findLast((entry) => entry.kind === "turn");
  if (last !== undefined) return last;
  const made: Turn = { kind: "turn", n, model: "", text: "", uses: [], usage: null, outputs: null, tookMs: null };
  run.entries.push(made);
  return made;
}

function aUse(name: string, args: unknown): ToolUse {
  return { name, args: args ?? null, text: null, failed: false, decided: null, tookMs: null, running: false };
}

function decisionOf(body: Words): string {
  const text = textIn(body, "text");
  return `${textIn(body, "by")}: ${textIn(body, "decision")}${text ? `, ${text}` : ""}`;
}

/** A transcript does not tell it. */
function tookOf(row: Words): number | null {
  const { started_at: began, done_at: done } = row;
  return typeof began === "number" && typeof done === "number" ? done - began : null;
}

function usageOf(row: Words): Usage | null {
  if (typeof row.tokens_in !== "number" || typeof row.tokens_out !== "number") return null;
  return {
    tokensIn: row.tokens_in,
    tokensOut: row.tokens_out,
    micros: typeof row.micros === "number" ? row.micros : null,
  };
}

/** From spans, which tell an attempt as it runs: when, which and what it cost, but no words. */
export function runOfSpans(spans: readonly Span[], step: string, attempt: number): Run {
  const run = anEmptyRun();
  let n = 0;
  for (const span of spans) {
    if (span.step !== step || span.attempt !== attempt || (span.kind !== "turn" && span.kind !== "tool")) continue;
    const { attributes, started_at, ended_at } = span;
    const tookMs = ended_at === null ? null : ended_at - started_at;
    n += 1;
    if (span.kind === "turn") {
      const usage = usageOf({
        tokens_in: attributes["gen_ai.usage.input_tokens"],
        tokens_out: attributes["gen_ai.usage.output_tokens"],
        micros: attributes["longtask.cost.micros"],
      });
      const model = textIn(attributes, "gen_ai.request.model");
      run.entries.push({ kind: "turn", n, model, text: "", uses: [], usage, outputs: null, tookMs });
    } else {
      const name = textIn(attributes, "gen_ai.tool.name");
      if (name === SESSION) continue;
      lastTurn(run, n).uses.push({
        ...aUse(name, null),
        failed: span.status === "error",
        tookMs,
        running: ended_at === null,
      });
    }
  }
  return run;
}

export type Sum = Usage & {
  turns: number;
  uses: number;
  /** There are turns whose usage is not known. */
  partial: boolean;
  /** There are turns that have no price. */
  unpriced: boolean;
};

export function sumOf(run: Run): Sum {
  const sum: Sum = { turns: 0, uses: 0, tokensIn: 0, tokensOut: 0, micros: null, partial: false, unpriced: false };
  for (const entry of run.entries) {
    if (entry.kind !== "turn") continue;
    sum.turns += entry.model === "" ? 0 : 1;
    sum.uses += entry.uses.length;
    if (entry.usage === null) sum.partial = true;
    else {
      sum.tokensIn += entry.usage.tokensIn;
      sum.tokensOut += entry.usage.tokensOut;
      if (entry.usage.micros === null) sum.unpriced = true;
      else sum.micros = (sum.micros ?? 0) + entry.usage.micros;
    }
  }
  return sum;
}

/** What a call is about, on one line. */
export function aboutOf(args: unknown): string {
  if (typeof args === "string") return args;
  if (typeof args !== "object" || args === null) return "";
  const words = args as Words;
  for (const name of ["command", "path", "file_path", "question", "query", "pattern", "url"]) {
    if (typeof words[name] === "string") return words[name];
  }
  return Object.keys(words).length === 0 ? "" : JSON.stringify(args);
}

function parsed(line: string): Words | null {
  if (line === "") return null;
  try {
    const row: unknown = JSON.parse(line);
    return typeof row === "object" && row !== null ? (row as Words) : null;
  } catch {
    return null; // cut off
  }
}

function textIn(words: Words, name: string): string {
  const value = words[name];
  return typeof value === "string" ? value : "";
}

function mapIn(words: Words, name: string): Words {
  const value = words[name];
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Words) : {};
}

function listIn(words: Words, name: string): Words[] {
  const value = words[name];
  return Array.isArray(value) ? value.filter((one): one is Words => typeof one === "object" && one !== null) : [];
}

function filled(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}
