/** A step's words as fields of a form, and what has been said anew in them. */
import type { Words } from "@/api/documents";

/** `kind`: the word that the text belongs to; null: the step has no text to edit. */
export type Fields = { kind: "run" | "agent" | "approval" | null; text: string; timeout: string; retry: string };

export function fieldsOf(words: Words): Fields {
  const timeout = typeof words.timeout === "string" ? words.timeout : "";
  const rest = { timeout, retry: words.retry === undefined ? "" : String(words.retry) };
  if (words.run !== undefined)
    return { kind: "run", text: typeof words.run === "string" ? words.run : JSON.stringify(words.run), ...rest };
  if (words.agent !== undefined) return { kind: "agent", text: inner(words.agent, "prompt"), ...rest };
  if (words.approval !== undefined) return { kind: "approval", text: inner(words.approval, "ask"), ...rest };
  return { kind: null, text: "", ...rest };
}

/** What is not said stays as it was.  `was`: the words as they are. */
export function saidAnew(was: Words, now: Fields): Words {
  const old = fieldsOf(was);
  const said: Words = {};
  if (now.text !== old.text && now.text.trim() !== "") {
    if (now.kind === "run") said.run = commandIn(now.text, Array.isArray(was.run));
    if (now.kind === "agent") said.agent = { prompt: now.text };
    if (now.kind === "approval") said.approval = { ask: now.text };
  }
  if (now.timeout.trim() !== old.timeout && now.timeout.trim() !== "") said.timeout = now.timeout.trim();
  if (now.retry !== old.retry && now.retry !== "") said.retry = Number(now.retry);
  return said;
}

/** A command that was a list of words stays one, if it is written as one. */
function commandIn(text: string, listed: boolean): unknown {
  if (!listed) return text;
  try {
    const found: unknown = JSON.parse(text);
    return Array.isArray(found) ? found : text;
  } catch {
    return text;
  }
}

function inner(value: unknown, name: string): string {
  const found = typeof value === "object" && value !== null ? (value as Words)[name] : value;
  return typeof found === "string" ? found : "";
}
