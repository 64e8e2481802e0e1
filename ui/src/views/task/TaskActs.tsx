/** Buttons of a task: add steps, pause, resume, cancel; each says what it will do. */
import { CircleSlash, ListPlus, Pause, Play } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import type { TaskTree } from "@/api/documents";
import { cancelTask, hasEnded, pauseTask, resumeTask } from "@/api/tasks";
import { ActDialog } from "@/parts/ActDialog";
import { useAct } from "@/parts/act";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { useMay } from "@/parts/roles";
import { t } from "@/texts/texts";

type Word = "add" | "pause" | "resume" | "cancel";

const AddSteps = lazy(async () => ({ default: (await import("./add/AddSteps")).AddSteps }));

export function TaskActs({ task }: { task: TaskTree }) {
  const [asked, setAsked] = useState<Word | null>(null);
  const may = useMay("operator");
  if (hasEnded(task.status)) return null;
  const stopped = task.status === "paused" || task.status === "waiting_budget";
  const closing = task.status === "cancelling";
  const title = may ? undefined : t.task.mayNot;
  const close = () => setAsked(null);
  return (
    <>
      {closing ? null : (
        <Button icon={<ListPlus size={14} aria-hidden />} disabled={!may} title={title} onClick={() => setAsked("add")}>
          {t.hands.add}
        </Button>
      )}
      {closing ? null : stopped ? (
        <Button
          look="main"
          icon={<Play size={14} aria-hidden />}
          disabled={!may}
          title={title}
          onClick={() => setAsked("resume")}
        >
          {t.task.resume}
        </Button>
      ) : (
        <Button icon={<Pause size={14} aria-hidden />} disabled={!may} title={title} onClick={() => setAsked("pause")}>
          {t.task.pause}
        </Button>
      )}
      {closing ? null : (
        <Button
          look="danger"
          icon={<CircleSlash size={14} aria-hidden />}
          disabled={!may}
          title={title}
          onClick={() => setAsked("cancel")}
        >
          {t.task.cancel}
        </Button>
      )}
      <Suspense>{asked === "add" ? <AddSteps task={task} onClose={close} /> : null}</Suspense>
      {asked === "pause" ? <Pausing task={task.id} onClose={close} /> : null}
      {asked === "resume" ? <Resuming task={task} onClose={close} /> : null}
      {asked === "cancel" ? <Cancelling task={task.id} onClose={close} /> : null}
    </>
  );
}

function Pausing({ task, onClose }: { task: string; onClose: () => void }) {
  const [now, setNow] = useState(false);
  const act = useAct(
    task,
    (value: boolean) => pauseTask(task, value),
    () => t.task.paused,
  );
  return (
    <ActDialog title={t.task.pause} why={t.task.pauseWhy} word={t.task.pause} act={act} value={now} onClose={onClose}>
      <label className="flex items-center gap-2">
        <input type="checkbox" checked={now} onChange={(event) => setNow(event.target.checked)} />
        {t.task.pauseNow}
      </label>
    </ActDialog>
  );
}

function Resuming({ task, onClose }: { task: TaskTree; onClose: () => void }) {
  const spent = task.status === "waiting_budget";
  const [cost, setCost] = useState("");
  const [tokens, setTokens] = useState("");
  const act = useAct(
    task.id,
    (limits: { cost_usd?: number; tokens?: number }) => resumeTask(task.id, limits),
    () => t.task.resumed,
  );
  const limits = { ...(cost && { cost_usd: Number(cost) }), ...(tokens && { tokens: Number(tokens) }) };
  return (
    <ActDialog
      title={t.task.resume}
      why={spent ? t.task.raiseWhy : t.task.resumeWhy}
      word={t.task.resume}
      act={act}
      value={limits}
      ready={!spent || cost !== "" || tokens !== ""}
      onClose={onClose}
    >
      {spent && task.cost_limit_micros !== null ? (
        <Field
          label={t.task.raiseCost}
          type="number"
          min={task.cost_micros / 1e6}
          step="any"
          value={cost}
          onChange={(event) => setCost(event.target.value)}
        />
      ) : null}
      {spent && task.tokens_limit !== null ? (
        <Field
          label={t.task.raiseTokens}
          type="number"
          min={task.tokens}
          step={1}
          value={tokens}
          onChange={(event) => setTokens(event.target.value)}
        />
      ) : null}
    </ActDialog>
  );
}

function Cancelling({ task, onClose }: { task: string; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const act = useAct(
    task,
    (value: string) => cancelTask(task, value),
    () => t.task.cancelled,
  );
  return (
    <ActDialog
      title={t.task.cancel}
      why={t.task.cancelWhy}
      word={t.task.cancel}
      danger
      act={act}
      value={reason}
      onClose={onClose}
    >
      <Field label={t.task.cancelReason} value={reason} onChange={(event) => setReason(event.target.value)} />
    </ActDialog>
  );
}
