/** Buttons of a step for what people do to its work: take it over, say anew what it is to do. */
import { Hand, PencilLine } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import type { StepDetail, TaskTree } from "@/api/documents";
import { Button } from "@/parts/Button";
import { useMay } from "@/parts/roles";
import { t } from "@/texts/texts";
import { mayEdit, mayTake } from "./may";

const EditDialog = lazy(async () => ({ default: (await import("./EditDialog")).EditDialog }));
const TakeDialog = lazy(async () => ({ default: (await import("./TakeDialog")).TakeDialog }));

export function HandActs({ task, step }: { task: TaskTree; step: StepDetail }) {
  const [asked, setAsked] = useState<"take" | "edit" | null>(null);
  const may = useMay("operator");
  const title = may ? undefined : t.task.mayNot;
  const close = () => setAsked(null);
  return (
    <>
      {mayTake(task, step) ? (
        <Button icon={<Hand size={14} aria-hidden />} disabled={!may} title={title} onClick={() => setAsked("take")}>
          {t.hands.take}
        </Button>
      ) : null}
      {mayEdit(task, step) ? (
        <Button
          icon={<PencilLine size={14} aria-hidden />}
          disabled={!may}
          title={title}
          onClick={() => setAsked("edit")}
        >
          {t.hands.edit}
        </Button>
      ) : null}
      <Suspense>
        {asked === "take" ? <TakeDialog task={task} step={step.key} onClose={close} /> : null}
        {asked === "edit" ? <EditDialog task={task} step={step} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
