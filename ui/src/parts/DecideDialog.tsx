/** An answer to what a step asks, with a word for the record. */
import { useState } from "react";
import { decide } from "@/api/approvals";
import type { Approval } from "@/api/documents";
import { t, worded } from "@/texts/texts";
import { ActDialog } from "./ActDialog";
import { useAct } from "./act";
import { TextField } from "./Field";

/** Answers that a word is enough for; the others take what only the view of the approval shows. */
export const PLAIN_ANSWERS: ReadonlySet<string> = new Set([
  "approve",
  "reject",
  "respond",
  "again",
  "accept",
  "give_up",
]);
const NEEDS_TEXT: ReadonlySet<string> = new Set(["reject", "respond"]);
const DANGER: ReadonlySet<string> = new Set(["reject", "give_up"]);

type Props = { approval: Approval; answer: string; onClose: () => void };

export function DecideDialog({ approval, answer, onClose }: Props) {
  const [text, setText] = useState("");
  const { task, step } = approval;
  const act = useAct(
    task,
    (words: string) => decide(task, step, `"${approval.version}"`, { answer, text: words }),
    () => t.inbox.decided(step, worded(t.words.answer, answer)),
  );
  const word = worded(t.words.answer, answer);
  const needed = NEEDS_TEXT.has(answer) && (answer === "respond" || approval.kind === "approval");
  return (
    <ActDialog
      title={`${word}: ${step}`}
      why={worded(t.words.effect, answer)}
      word={word}
      act={act}
      value={text}
      danger={DANGER.has(answer)}
      ready={!needed || text.trim() !== ""}
      onClose={onClose}
    >
      <TextField
        label={answer === "reject" ? t.inbox.reason : t.inbox.note}
        hint={answer === "reject" ? t.inbox.reasonHint : undefined}
        required={needed}
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </ActDialog>
  );
}
