/** A step that a person has taken: whose it is, and how it goes on. */
import { useQuery } from "@tanstack/react-query";
import { Hand } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import type { StepDetail, TaskTree } from "@/api/documents";
import { giveBackStep } from "@/api/hands";
import { whoQuery } from "@/api/installation";
import { ActDialog } from "@/parts/ActDialog";
import { Age } from "@/parts/Age";
import { useAct } from "@/parts/act";
import { Button } from "@/parts/Button";
import { CopyText } from "@/parts/CopyText";
import { useMay } from "@/parts/roles";
import { t } from "@/texts/texts";

const DoneDialog = lazy(async () => ({ default: (await import("./DoneDialog")).DoneDialog }));

type Props = { task: TaskTree; step: StepDetail; by: string };

export function Taken({ task, step, by }: Props) {
  const [asked, setAsked] = useState<"done" | "back" | null>(null);
  const who = useQuery(whoQuery());
  const may = useMay("operator");
  const mine = who.data?.name === by;
  const close = () => setAsked(null);
  return (
    <section aria-label={t.hands.taken} className="flex flex-col gap-2 rounded-md bg-wait-soft px-3 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Hand size={15} aria-hidden className="shrink-0 text-wait" />
        <p className="min-w-48 flex-1 break-words">
          {mine ? t.hands.mine : t.hands.theirs(by)}
          {step.began_at === null ? null : (
            <span className="text-muted">
              {" · "}
              <Age at={step.began_at} />
            </span>
          )}
        </p>
        <span className="flex gap-2">
          <Button disabled={!may} title={may ? undefined : t.task.mayNot} onClick={() => setAsked("back")}>
            {t.hands.giveBack}
          </Button>
          <Button
            look="main"
            disabled={!may || !mine}
            title={may ? (mine ? undefined : t.hands.onlyTheirs(by)) : t.task.mayNot}
            onClick={() => setAsked("done")}
          >
            {t.hands.done}
          </Button>
        </span>
      </div>
      {mine ? (
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-muted">
          <p>{t.hands.code}</p>
          <span className="max-w-full text-ink">
            <CopyText text={`longtask done ${task.handle} ${step.key}`} />
          </span>
        </div>
      ) : null}
      {asked === "back" ? <GivingBack task={task.id} step={step.key} onClose={close} /> : null}
      <Suspense>{asked === "done" ? <DoneDialog task={task.id} step={step.key} onClose={close} /> : null}</Suspense>
    </section>
  );
}

function GivingBack({ task, step, onClose }: { task: string; step: string; onClose: () => void }) {
  const act = useAct(
    task,
    () => giveBackStep(task, step),
    () => t.hands.gaveBack(step),
  );
  return (
    <ActDialog
      title={`${t.hands.giveBack}: ${step}`}
      why={t.hands.giveBackWhy(step)}
      word={t.hands.giveBack}
      act={act}
      value={undefined}
      onClose={onClose}
    />
  );
}
