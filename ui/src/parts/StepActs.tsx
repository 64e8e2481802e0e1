/** Buttons of a step: retry, go on without it, cancel it, fork from it; those that make sense in its state. */
import { CircleSlash, GitFork, RotateCcw, SkipForward } from "lucide-react";
import { useState } from "react";
import type { Step } from "@/api/documents";
import { cancelStep, retryStep, skipStep } from "@/api/steps";
import { t } from "@/texts/texts";
import { ActDialog } from "./ActDialog";
import { useAct } from "./act";
import { Button } from "./Button";
import { Foreseen } from "./Foreseen";
import { ForkDialog } from "./ForkDialog";
import { useMay } from "./roles";

type Word = "retry" | "skip" | "stop" | "fork";
type Acting = Pick<Step, "key" | "state" | "owner">;

const OF_STATE: Readonly<Record<string, readonly Word[]>> = {
  failed: ["retry", "skip"],
  cancelled: ["retry", "skip"],
  skipped: [],
  completed: [],
  blocked: ["skip", "stop"],
  ready: ["skip", "stop"],
  waiting: ["skip", "stop"],
  running: ["stop"],
  merging: [],
};

export function stepActs(step: Acting): readonly Word[] {
  const acts = OF_STATE[step.state] ?? [];
  const ended = step.state === "failed" || step.state === "cancelled";
  return step.owner === null || ended ? acts : acts.filter((word) => word !== "skip"); // it belongs to its owner
}

/** `compact`: icons alone, with names for who does not see them. */
export function StepActs({ task, step, compact = false }: { task: string; step: Acting; compact?: boolean }) {
  const [asked, setAsked] = useState<Word | null>(null);
  const may = useMay("operator");
  const acts = compact || step.owner !== null ? stepActs(step) : [...stepActs(step), "fork" as const];
  if (acts.length === 0) return null;
  const ended = step.state === "failed" || step.state === "cancelled";
  const texts = {
    retry: { name: t.task.retry, icon: RotateCcw },
    skip: { name: ended ? t.task.waive : t.task.skip, icon: SkipForward },
    stop: { name: t.task.stop, icon: CircleSlash },
    fork: { name: t.foreseen.fork, icon: GitFork },
  } as const;
  return (
    <span className={`inline-flex gap-1 ${compact ? "" : "flex-wrap"}`}>
      {acts.map((word) => {
        const { name, icon: Icon } = texts[word];
        return (
          <Button
            key={word}
            look={compact ? "quiet" : word === "stop" ? "danger" : "plain"}
            icon={<Icon size={14} aria-hidden />}
            disabled={!may}
            title={may ? name : t.task.mayNot}
            aria-label={compact ? `${name}: ${step.key}` : undefined}
            tabIndex={compact ? -1 : undefined}
            className={compact ? "min-h-6! px-1!" : ""}
            onClick={(event) => {
              event.stopPropagation();
              setAsked(word);
            }}
          >
            {compact ? null : name}
          </Button>
        );
      })}
      {asked === null ? null : <Asking task={task} step={step} word={asked} onClose={() => setAsked(null)} />}
    </span>
  );
}

function Asking({ task, step, word, onClose }: { task: string; step: Acting; word: Word; onClose: () => void }) {
  const { key } = step;
  const retry = useAct(
    task,
    () => retryStep(task, key),
    () => t.task.retried(key),
  );
  const skip = useAct(
    task,
    () => skipStep(task, key),
    () => t.task.skipped(key),
  );
  const stop = useAct(
    task,
    () => cancelStep(task, key),
    () => t.task.stopped(key),
  );
  const ended = step.state === "failed" || step.state === "cancelled";
  switch (word) {
    case "fork":
      return <ForkDialog task={task} step={key} onClose={onClose} />;
    case "retry":
      return (
        <ActDialog
          title={t.task.retry}
          why={t.task.retryWhy(key)}
          word={t.task.retry}
          act={retry}
          value={undefined}
          bare
          onClose={onClose}
        >
          <Foreseen task={task} step={key} act="retry" />
        </ActDialog>
      );
    case "skip":
      return (
        <ActDialog
          title={ended ? t.task.waive : t.task.skip}
          why={ended ? t.task.waiveWhy(key) : t.task.retireWhy(key)}
          word={ended ? t.task.waive : t.task.skip}
          act={skip}
          value={undefined}
          onClose={onClose}
        />
      );
    case "stop":
      return (
        <ActDialog
          title={t.task.stop}
          why={t.task.stopWhy(key)}
          word={t.task.stop}
          danger
          act={stop}
          value={undefined}
          onClose={onClose}
        />
      );
  }
}
