/** What a person did is the step's outcome, with what it hands over. */
import { useState } from "react";
import type { Words } from "@/api/documents";
import { finishStep } from "@/api/hands";
import { ActDialog } from "@/parts/ActDialog";
import { useAct } from "@/parts/act";
import { TextField } from "@/parts/Field";
import { t } from "@/texts/texts";

type Props = { task: string; step: string; onClose: () => void };

export function DoneDialog({ task, step, onClose }: Props) {
  const [text, setText] = useState("");
  const act = useAct(
    task,
    (value: Words | null) => finishStep(task, step, value),
    () => t.hands.finished(step),
  );
  const outputs = outputsIn(text);
  return (
    <ActDialog
      title={`${t.hands.done}: ${step}`}
      why={t.hands.doneWhy(step)}
      word={t.hands.done}
      act={act}
      value={outputs ?? null}
      ready={outputs !== undefined}
      onClose={onClose}
    >
      <TextField
        label={t.hands.outputs}
        hint={t.hands.outputsHint}
        spellCheck={false}
        autoFocus
        aria-invalid={outputs === undefined}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <p role="status" className="text-bad empty:hidden">
        {outputs === undefined ? t.hands.notObject : ""}
      </p>
    </ActDialog>
  );
}

/** Null: there are none; undefined: it is no JSON object. */
export function outputsIn(text: string): Words | null | undefined {
  if (text.trim() === "") return null;
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Words) : undefined;
  } catch {
    return undefined;
  }
}
