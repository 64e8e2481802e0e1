/** An answer to what a step asks, with a word for the record. */
import { useState } from "react";
import { Link } from "react-router";
import { decide } from "@/api/approvals";
import type { Approval } from "@/api/documents";
import { isChanged } from "@/api/problem";
import { t, worded } from "@/texts/texts";
import { ActDialog } from "./ActDialog";
import { useAct } from "./act";
import { approvalAddress } from "./addresses";
import { needsText } from "./answers";
import { buttonClass } from "./Button";
import { TextField } from "./Field";
import { Foreseen } from "./Foreseen";

/** Answers that a word is enough for; the others take what only the view of the approval shows. */
export const PLAIN_ANSWERS: ReadonlySet<string> = new Set([
  "approve",
  "reject",
  "respond",
  "again",
  "accept",
  "give_up",
  "raise",
  "raise_stage",
]);
const DANGER: ReadonlySet<string> = new Set(["reject", "give_up"]);

type Props = { approval: Approval; answer: string; onClose: () => void };

/** It answers what stood there when it was opened, whatever is asked meanwhile. */
export function DecideDialog({ approval: given, answer, onClose }: Props) {
  const [approval] = useState(given);
  const [text, setText] = useState("");
  const { task, step } = approval;
  const act = useAct(
    task,
    (words: string) => decide(task, step, `"${approval.version}"`, { answer, text: words }),
    () => t.inbox.decided(step, worded(t.words.answer, answer)),
  );
  const word = worded(t.words.answer, answer);
  const changed = isChanged(act.error);
  const needed = needsText(approval, answer);
  const ofPlan = approval.kind === "plan" ? t.hands.planEffect[answer] : undefined;
  return (
    <ActDialog
      title={`${word}: ${step}`}
      why={ofPlan ?? worded(t.words.effect, answer)}
      word={word}
      act={act}
      value={text}
      danger={DANGER.has(answer)}
      ready={!changed && (!needed || text.trim() !== "")}
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
      {answer === "reject" && approval.kind === "approval" ? <Foreseen task={task} step={step} act="reject" /> : null}
      {changed ? (
        <Link to={approvalAddress(task, step)} className={buttonClass("main")}>
          {t.approval.showNew}
        </Link>
      ) : null}
    </ActDialog>
  );
}
