/** What a step has changed in the code. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { StepDetail } from "@/api/documents";
import { Problem } from "@/api/problem";
import { changesQuery, patchQuery } from "@/api/tasks";
import { Asked } from "@/parts/Asked";
import { Button } from "@/parts/Button";
import { LazyPatch } from "@/parts/diff/LazyPatch";
import { Empty } from "@/parts/Empty";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";

const LINES_MAX = 20_000; // more are loaded when somebody says so

export function Changed({ task, step }: { task: string; step: StepDetail }) {
  const [anyway, setAnyway] = useState(false);
  const changes = useQuery(changesQuery(task, step.key));
  if (changes.error instanceof Problem && changes.error.word === "refused") {
    return (
      <Empty title={t.step.noChanges}>
        {step.kind === "agent" && step.state === "running" ? t.step.noChangesYet : null}
      </Empty>
    );
  }
  return (
    <Asked query={changes}>
      {({ files }) => {
        const lines = files.reduce((sum, file) => sum + file.insertions + file.deletions, 0);
        if (files.length === 0) return <Empty title={t.step.noChanges} />;
        if (lines > LINES_MAX && !anyway) {
          return (
            <Empty title={t.step.largePatch(count(lines), files.length)}>
              <Button onClick={() => setAnyway(true)}>{t.step.loadPatch}</Button>
            </Empty>
          );
        }
        return <Loaded task={task} step={step.key} />;
      }}
    </Asked>
  );
}

function Loaded({ task, step }: { task: string; step: string }) {
  const patch = useQuery(patchQuery(task, step));
  return (
    <>
      <h2 className="sr-only">{t.step.part.changes}</h2>
      <Asked query={patch}>{(text) => <LazyPatch patch={text} />}</Asked>
    </>
  );
}
