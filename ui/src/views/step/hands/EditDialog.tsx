/** What a step is to do is said anew. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { StepDetail, TaskTree, Words } from "@/api/documents";
import { editStep, stepWordsQuery } from "@/api/hands";
import { ActDialog } from "@/parts/ActDialog";
import { Asked } from "@/parts/Asked";
import { useAct } from "@/parts/act";
import { Dialog } from "@/parts/Dialog";
import { Field, TextField } from "@/parts/Field";
import { Foreseen } from "@/parts/Foreseen";
import { t } from "@/texts/texts";
import { standsStill } from "./may";
import { fieldsOf, saidAnew } from "./words";

const RETRIES_MAX = 100;

type Props = { task: TaskTree; step: StepDetail; onClose: () => void };

export function EditDialog(props: Props) {
  const words = useQuery(stepWordsQuery(props.task.id, props.step.key));
  if (words.isPending) return null; // no dialog that grows under the hand
  if (words.data) return <Editing {...props} words={words.data} />;
  return (
    <Dialog title={`${t.hands.edit}: ${props.step.key}`} onClose={props.onClose}>
      <Asked query={words}>{() => <p>{t.hands.notEdited}</p>}</Asked>
    </Dialog>
  );
}

/** It is about the words that were there when it was opened. */
function Editing({ task, step, words, onClose }: Props & { words: Words }) {
  const [was] = useState(words);
  const [fields, setFields] = useState(() => fieldsOf(was));
  const still = standsStill(step);
  const failed = task.status === "failed";
  const [wanted, setWanted] = useState(still);
  const again = still && (wanted || failed);
  const act = useAct(
    task.id,
    (said: Words) => editStep(task.id, step.key, said, again),
    () => (again ? t.hands.editedAgain(step.key) : t.hands.edited(step.key)),
  );
  const said = saidAnew(was, fields);
  const asks = step.state === "waiting" && step.kind === "approval";
  return (
    <ActDialog
      title={`${t.hands.edit}: ${step.key}`}
      why={`${t.hands.editWhy(step.key)}${asks ? ` ${t.hands.askedAnew}` : ""}`}
      word={t.hands.edit}
      act={act}
      value={said}
      ready={Object.keys(said).length > 0}
      wide
      onClose={onClose}
    >
      {fields.kind === null ? null : (
        <TextField
          label={t.hands.words[fields.kind] ?? fields.kind}
          rows={fields.kind === "run" ? 4 : 10}
          spellCheck={fields.kind !== "run"}
          autoFocus
          className={`w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 max-sm:text-base ${fields.kind === "run" ? "font-mono text-[0.93em]" : ""}`}
          value={fields.text}
          onChange={(event) => setFields({ ...fields, text: event.target.value })}
        />
      )}
      {fields.kind === "approval" ? null : (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field
            label={t.hands.timeout}
            hint={t.hands.timeoutHint}
            value={fields.timeout}
            onChange={(event) => setFields({ ...fields, timeout: event.target.value })}
          />
          <Field
            label={t.hands.retries}
            type="number"
            min={0}
            max={RETRIES_MAX}
            value={fields.retry}
            onChange={(event) => setFields({ ...fields, retry: event.target.value })}
          />
        </div>
      )}
      {still ? (
        <label className="flex items-center gap-2">
          <input
            type="checkbox"
            checked={again}
            disabled={failed}
            onChange={(event) => setWanted(event.target.checked)}
          />
          {t.hands.again}
          {failed ? <span className="text-muted">{t.hands.againNeeded}</span> : null}
        </label>
      ) : null}
      <Foreseen task={task.id} step={step.key} act="edit" />
    </ActDialog>
  );
}
