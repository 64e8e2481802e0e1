/** A step becomes a person's own. */
import { useState } from "react";
import type { TaskTree } from "@/api/documents";
import { takeStep } from "@/api/hands";
import { ActDialog } from "@/parts/ActDialog";
import { useAct } from "@/parts/act";
import { CopyText } from "@/parts/CopyText";
import { Field } from "@/parts/Field";
import { t } from "@/texts/texts";

const HOURS = "24";
const HOURS_MAX = 24 * 90;

type Props = { task: TaskTree; step: string; onClose: () => void };

export function TakeDialog({ task, step, onClose }: Props) {
  const [hours, setHours] = useState(HOURS);
  const act = useAct(
    task.id,
    (value: number) => takeStep(task.id, step, value),
    () => t.hands.took(step),
  );
  const value = Number(hours);
  return (
    <ActDialog
      title={`${t.hands.take}: ${step}`}
      why={t.hands.takeWhy(step)}
      word={t.hands.take}
      act={act}
      value={value}
      bare
      ready={value > 0 && value <= HOURS_MAX}
      onClose={onClose}
    >
      <Field
        label={t.hands.hours}
        type="number"
        min={0.1}
        max={HOURS_MAX}
        step="any"
        value={hours}
        onChange={(event) => setHours(event.target.value)}
      />
      <div className="text-muted">
        <p className="mb-1">{t.hands.folder}</p>
        <CopyText text={`longtask take ${task.handle} ${step}`} />
      </div>
    </ActDialog>
  );
}
