/** A step done again in a new task: what that takes over and what it does again is shown first. */
import { useState } from "react";
import { useNavigate } from "react-router";
import { actKey } from "@/api/client";
import { forkTask } from "@/api/steps";
import { t } from "@/texts/texts";
import { ActDialog } from "./ActDialog";
import { useAct } from "./act";
import { taskAddress } from "./addresses";
import { Foreseen } from "./Foreseen";

export function ForkDialog({ task, step, onClose }: { task: string; step: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [key] = useState(actKey); // pressed again after a lost answer, it is the same fork
  const [paused, setPaused] = useState(false);
  const act = useAct(
    task,
    async () => {
      const made = await forkTask(task, step, paused, key);
      void navigate(taskAddress(made.task));
    },
    () => (paused ? t.foreseen.forkedPaused(step) : t.foreseen.forked(step)),
  );
  return (
    <ActDialog
      title={t.foreseen.fork}
      why={t.foreseen.forkWhy(step)}
      word={t.foreseen.fork}
      act={act}
      value={undefined}
      bare
      onClose={onClose}
    >
      <Foreseen task={task} step={step} act="fork" />
      <label className="flex items-center gap-2">
        <input type="checkbox" checked={paused} onChange={(event) => setPaused(event.target.checked)} />
        {t.foreseen.paused}
      </label>
    </ActDialog>
  );
}
