/** What a question shows, read out of its document, which may hold more than this page knows. */
import type { Approval, Artifact } from "@/api/documents";

export type ShownDiff = { base: string; head: string; files: number; insertions: number; deletions: number };
export type ShownArtifact = Pick<Artifact, "name" | "digest" | "size_bytes" | "media_type" | "step">;
/** A call of a tool that an agent would make. */
export type ShownCall = { name: string; args: Words };
export type Words = Readonly<Record<string, unknown>>;

export type Shown = {
  diff: ShownDiff | null;
  artifacts: readonly ShownArtifact[];
  /** Paths; as of `head`. */
  files: readonly string[];
  call: ShownCall | null;
  head: string | null;
  /** Of a question of the machine: why it asks. */
  reason: string | null;
};

export function shownOf({ question }: Approval): Shown {
  const show = isWords(question.show) ? question.show : {};
  const diff = isWords(show.diff) ? (show.diff as ShownDiff) : null;
  const head = typeof question.head === "string" ? question.head : (diff?.head ?? null);
  return {
    diff,
    artifacts: Array.isArray(show.artifacts) ? (show.artifacts as ShownArtifact[]) : [],
    files: Array.isArray(show.files) ? show.files.map(String) : [],
    call: isWords(show.call) ? callOf(show.call) : null,
    head,
    reason: typeof question.reason === "string" ? question.reason : null,
  };
}

/** Arguments stand below `args`, or beside the name. */
function callOf(call: Words): ShownCall {
  const { name, args, ...rest } = call;
  return { name: String(name ?? ""), args: isWords(args) ? args : args === undefined ? rest : { args } };
}

export function isWords(value: unknown): value is Words {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const COMMANDS = ["command", "cmd", "script"] as const;
const QUERIES = ["sql", "statement", "query"] as const;
const SQL = /^\s*(select|insert|update|delete|merge|with|create|alter|drop|truncate|grant|revoke|begin|vacuum)\b/i;

/** What a call would run, when that is what matters about it; the other arguments stand beside it. */
export type Program = { kind: "command" | "sql"; text: string; rest: Words };

export function programOf({ args }: ShownCall): Program | null {
  for (const name of COMMANDS) {
    const value = args[name];
    if (typeof value === "string") return { kind: "command", text: value, rest: without(args, name) };
    if (Array.isArray(value)) return { kind: "command", text: value.map(String).join(" "), rest: without(args, name) };
  }
  for (const name of QUERIES) {
    const value = args[name];
    if (typeof value === "string" && (name === "sql" || SQL.test(value)))
      return { kind: "sql", text: value, rest: without(args, name) };
  }
  return null;
}

function without(words: Words, name: string): Words {
  return Object.fromEntries(Object.entries(words).filter(([other]) => other !== name));
}

/** What is asked, in its first line and what follows. */
export function textOf(approval: Approval): { title: string; more: string } {
  const { text } = approval.question;
  const whole = typeof text === "string" && text.trim() !== "" ? text.trim() : approval.text;
  const end = whole.indexOf("\n");
  return end < 0 ? { title: whole, more: "" } : { title: whole.slice(0, end), more: whole.slice(end + 1).trim() };
}
