/** Steps are added to a task that is under way. */
import { useState } from "react";
import type { Growth, TaskTree } from "@/api/documents";
import { addSteps } from "@/api/hands";
import { ActDialog } from "@/parts/ActDialog";
import { useAct } from "@/parts/act";
import { TextField } from "@/parts/Field";
import { useKept } from "@/parts/kept";
import { t } from "@/texts/texts";
import { Choice } from "./Choice";
import { countOf, growthIn, placesIn } from "./growth";

type Props = { task: TaskTree; onClose: () => void };

export function AddSteps({ task, onClose }: Props) {
  const [text, setText] = useKept(`steps ${task.id}`);
  const [stage, setStage] = useState("");
  const [before, setBefore] = useState("");
  const [after, setAfter] = useState("");
  const places = placesIn(task, stage);
  const { growth, wrong } = growthIn(text);
  const act = useAct(
    task.id,
    async (value: Growth) => {
      await addSteps(task.id, value);
      setText("");
    },
    (value) => t.hands.added(countOf(value)),
  );
  const value: Growth = {
    ...growth,
    ...(stage && { stage }),
    ...(places.before.includes(before) && { before }),
    ...(places.after.includes(after) && { after }),
  };
  return (
    <ActDialog
      title={t.hands.add}
      why={t.hands.addWhy}
      word={t.hands.add}
      act={act}
      value={value}
      ready={growth !== null && countOf(growth) > 0}
      wide
      onClose={onClose}
    >
      <div className="grid gap-3 sm:grid-cols-3">
        <Choice
          label={t.hands.stage}
          none={t.hands.underWay}
          values={places.stages}
          value={stage}
          onChoose={setStage}
        />
        <Choice
          label={t.hands.before}
          none={t.hands.nothing}
          values={places.before}
          value={before}
          onChoose={setBefore}
        />
        <Choice label={t.hands.after} none={t.hands.nothing} values={places.after} value={after} onChoose={setAfter} />
      </div>
      <TextField
        label={t.hands.steps}
        hint={t.hands.stepsHint}
        rows={10}
        autoFocus
        spellCheck={false}
        placeholder={t.hands.example}
        aria-invalid={Boolean(wrong)}
        className="w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 font-mono text-[12px] max-sm:text-base"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <p role="status" className="text-bad empty:hidden">
        {wrong}
      </p>
    </ActDialog>
  );
}
