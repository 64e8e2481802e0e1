import type { ProblemItem } from "./documents";

const URN = "urn:longtask:problem:";

/** An answer that is no success, as RFC 9457 tells it; `word` is that of docs/api.md, "unreachable" when none came. */
export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    readonly word: string,
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly problems: readonly ProblemItem[] = [],
    /** With `changed`: what is asked now. */
    readonly current: unknown = null,
  ) {
    super(detail || title);
  }

  /** The same request may succeed a little later. */
  get passing(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 429 || this.word === "in-flight";
  }
}

/** What was acted on is another one now: what was seen last counts for nothing. */
export function isChanged(error: unknown): error is Problem {
  return error instanceof Problem && error.word === "changed";
}

export function unreachable(): Problem {
  return new Problem("unreachable", 0, "", "");
}

/** `body`: what was answered, a document of any shape. */
export function problemOf(status: number, body: unknown): Problem {
  const told = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const type = typeof told.type === "string" ? told.type : "";
  return new Problem(
    type.startsWith(URN) ? type.slice(URN.length) : "http",
    status,
    typeof told.title === "string" ? told.title : "",
    typeof told.detail === "string" ? told.detail : "",
    Array.isArray(told.problems) ? (told.problems as ProblemItem[]) : [],
    told.current ?? null,
  );
}
