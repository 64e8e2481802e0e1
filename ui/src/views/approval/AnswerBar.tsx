/** The answers that fit, always in sight; and what was said about lines so far. */
import { MessageSquare } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Approval } from "@/api/documents";
import { whoQuery } from "@/api/installation";
import { Button, type ButtonLook } from "@/parts/Button";
import { useMay } from "@/parts/roles";
import { isTyping } from "@/parts/rows";
import { t, worded } from "@/texts/texts";
import { AnswerDialog } from "./AnswerDialog";
import type { Drafting } from "./draft";

/** A key for an answer, while nobody types. */
const KEYS: Readonly<Record<string, string>> = { a: "approve", r: "reject", e: "edit", w: "respond" };
const GOING_MS = 1_500;
const LOOKS: Readonly<Record<string, ButtonLook>> = { approve: "main", reject: "danger", give_up: "danger" };

type Props = {
  approval: Approval;
  drafting: Drafting;
  /** Another version is asked now, which was not looked at. */
  moved: boolean;
  /** A decision was refused, since this is asked now. */
  changed: (now: Approval) => void;
};

export function AnswerBar({ approval, drafting, moved, changed }: Props) {
  const [answer, setAnswer] = useState<string | null>(null);
  const why = useHindrance(approval, moved);
  const { answers } = approval;
  const comments = drafting.draft.comments.length;

  useEffect(() => {
    let goneAt = 0;
    const hear = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (why !== null || document.querySelector("dialog[open]") !== null) return;
      if (event.key === "g") goneAt = Date.now();
      if (Date.now() - goneAt < GOING_MS) return; // the second key of a way to another view
      const word = KEYS[event.key];
      if (word === undefined || !answers.includes(word)) return;
      event.preventDefault();
      setAnswer(word);
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, [answers, why]);

  return (
    <>
      <section
        id="answer"
        aria-label={t.approval.answer}
        tabIndex={-1}
        className="sticky bottom-14 z-10 -mx-3 mt-auto -mb-5 flex flex-wrap items-center gap-2 border-t border-line bg-surface px-3 py-2.5 outline-none sm:bottom-0 sm:-mx-5 sm:-mb-3 sm:px-5"
      >
        {answers.map((word, index) => {
          const key = Object.keys(KEYS).find((one) => KEYS[one] === word);
          return (
            <Button
              key={word}
              look={LOOKS[word] ?? (index === 0 ? "main" : "plain")}
              disabled={why !== null}
              aria-keyshortcuts={key}
              onClick={() => setAnswer(word)}
              className="max-sm:flex-1"
            >
              {worded(t.words.answer, word)}
              {key === undefined ? null : (
                <kbd aria-hidden className="font-mono text-[0.86em] opacity-70 pointer-coarse:hidden">
                  {key}
                </kbd>
              )}
            </Button>
          );
        })}
        {comments === 0 ? null : (
          <span className="inline-flex items-center gap-1.5 text-accent">
            <MessageSquare size={14} aria-hidden />
            {t.diff.comments(comments)}
          </span>
        )}
        {why === null ? null : <span className="text-muted max-sm:basis-full">{why}</span>}
      </section>
      {answer === null ? null : (
        <AnswerDialog
          key={answer}
          approval={approval}
          answer={answer}
          drafting={drafting}
          changed={(now) => {
            setAnswer(null);
            changed(now);
          }}
          onClose={() => setAnswer(null)}
        />
      )}
    </>
  );
}

/** Why the caller cannot answer now; null: nothing is in the way, as far as the page knows. */
function useHindrance(approval: Approval, moved: boolean): string | null {
  const may = useMay("approver");
  const who = useQuery(whoQuery());
  if (moved) return t.approval.lookFirst;
  if (!may) return t.task.mayNot;
  const name = who.data?.name;
  if (name !== undefined && approval.who.length > 0 && !approval.who.includes(name))
    return t.approval.notYou(approval.who.join(", "), name);
  return null;
}
