/** What somebody has begun to say about a question: it outlives leaving the view, and a new version of the question. */
import { useCallback, useEffect, useState } from "react";
import { type Comment, withComment } from "@/parts/diff/comments";

/** `edited`: what is to stand in the place of what one version shows. */
export type Edited = { version: string; text: string };
export type Draft = { said: string; edited: Edited | null; comments: readonly Comment[] };
export type Drafting = {
  draft: Draft;
  say: (said: string) => void;
  edit: (edited: Edited) => void;
  comment: (comment: Comment) => void;
  drop: () => void;
};

const NONE: Draft = { said: "", edited: null, comments: [] };

export function useDraft(task: string, step: string): Drafting {
  const name = `draft ${task} ${step}`;
  const [draft, setDraft] = useState(() => kept(name));
  useEffect(() => keep(name, draft), [name, draft]);
  return {
    draft,
    say: useCallback((said) => setDraft((before) => ({ ...before, said })), []),
    edit: useCallback((edited) => setDraft((before) => ({ ...before, edited })), []),
    comment: useCallback(
      (comment) => setDraft((before) => ({ ...before, comments: withComment(before.comments, comment) })),
      [],
    ),
    drop: useCallback(() => setDraft(NONE), []),
  };
}

/** A browser may keep nothing. */
function kept(name: string): Draft {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(name) ?? "null");
    return typeof found === "object" && found !== null ? { ...NONE, ...found } : NONE;
  } catch {
    return NONE;
  }
}

function keep(name: string, draft: Draft): void {
  try {
    if (draft === NONE) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(draft));
  } catch {
    // full, or not allowed: then it is lost with the page
  }
}
