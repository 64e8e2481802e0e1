/** Steps that a planner wants to add, read out of what it has handed over. */
import type { Words } from "@/api/documents";
import { firstLine } from "@/texts/format";
import { isWords } from "./asked";

/** `does`: what it runs or asks, in its first line; `words`: all of them. */
export type Proposed = { id: string; kind: string; does: string; needs: readonly string[]; words: Words };

/** The word of its kind; the first that is there tells. */
const KINDS = ["for_each", "run", "function", "agent", "approval", "wait", "artifact", "call", "task"] as const;
const TELLING = ["prompt", "ask", "signal", "url", "name", "plan"] as const;

export function proposedIn(result: unknown): readonly Proposed[] {
  const steps = isWords(result) ? result.steps : null;
  return Array.isArray(steps) ? steps.filter(isWords).map(readStep) : [];
}

/** It was too large for a row, and is fetched by itself. */
export function isAside(result: unknown): boolean {
  return isWords(result) && "$artifact" in result;
}

function readStep(words: Words): Proposed {
  const kind = KINDS.find((word) => word in words) ?? "";
  const work = kind === "for_each" ? KINDS.slice(1).find((word) => word in words) : kind;
  const needs = Array.isArray(words.needs) ? words.needs.map(String) : words.needs ? [String(words.needs)] : [];
  return { id: String(words.id ?? ""), kind, does: work ? told(words[work]) : "", needs, words };
}

function told(value: unknown): string {
  if (typeof value === "string") return firstLine(value);
  if (Array.isArray(value)) return value.map(String).join(" ");
  if (!isWords(value)) return "";
  const found = TELLING.map((name) => value[name]).find((one) => typeof one === "string");
  return typeof found === "string" ? firstLine(found) : "";
}
