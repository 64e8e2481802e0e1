/** The steps that one node stands for, by their states. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { Link } from "react-router";
import type { Step } from "@/api/documents";
import { Took } from "@/parts/Age";
import { stepAddress } from "@/parts/addresses";
import { Dialog } from "@/parts/Dialog";
import { moveAmongRows } from "@/parts/rows";
import { StateMark, stateText } from "@/parts/State";
import { t } from "@/texts/texts";
import { notesOf } from "@/views/task/tree/note";

const ROW_PX = 30;
const FILTER_MIN = 12; // fewer are seen at once

type Props = {
  task: string;
  name: string;
  step: Step | null;
  members: readonly Step[];
  stages: readonly string[];
  onClose: () => void;
};

/** `step`: the one that they belong to, if they belong to one. */
export function FoldDialog({ task, name, step, members, stages, onClose }: Props) {
  const [state, setState] = useState("");
  const [text, setText] = useState("");
  const states = useMemo(() => [...new Set(members.map((one) => one.state))].sort(), [members]);
  const shown = members.filter(
    (one) => (state === "" || one.state === state) && one.key.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <Dialog title={name} onClose={onClose} wide>
      {step === null ? null : (
        <Link to={stepAddress(task, step.key)} className="self-start font-medium text-accent underline">
          {t.graph.openStep(step.key)}
        </Link>
      )}
      {members.length < FILTER_MIN ? null : (
        <div role="search" className="flex flex-wrap gap-2">
          <input
            type="search"
            aria-label={t.graph.filter}
            placeholder={t.graph.filter}
            className="min-h-8 rounded-md border border-line-strong bg-surface px-2"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <select
            aria-label={t.graph.state}
            className="min-h-8 rounded-md border border-line-strong bg-surface px-2"
            value={state}
            onChange={(event) => setState(event.target.value)}
          >
            <option value="">{t.graph.anyState}</option>
            {states.map((one) => (
              <option key={one} value={one}>
                {stateText(one)}
              </option>
            ))}
          </select>
          <span className="self-center text-muted tabular-nums">{t.words.of(shown.length, members.length)}</span>
        </div>
      )}
      <List task={task} steps={shown} stages={stages} />
    </Dialog>
  );
}

function List({ task, steps, stages }: { task: string; steps: readonly Step[]; stages: readonly string[] }) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: steps.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
    initialRect: { width: 600, height: 400 },
    getItemKey: (index) => steps[index]?.key ?? index,
  });
  return (
    <div ref={box} className="max-h-[60dvh] overflow-y-auto rounded border border-line" onKeyDown={moveAmongRows}>
      <ul aria-label={t.graph.steps(steps.length)} className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const step = steps[item.index];
          if (step === undefined) return null;
          return (
            <li
              key={item.key}
              className="absolute inset-x-0 top-0 flex items-center gap-2 border-b border-line px-2"
              style={{ height: ROW_PX, transform: `translateY(${item.start}px)` }}
            >
              <StateMark state={step.state} named />
              <Link data-row to={stepAddress(task, step.key)} className="max-w-[55%] truncate hover:underline">
                {step.key}
              </Link>
              <span className="min-w-0 flex-1 truncate text-muted">
                {notesOf(step, stages)
                  .map((note) => note.text)
                  .join(" · ")}
              </span>
              {step.began_at === null ||
              (step.ended_at === null && step.state !== "running" && step.state !== "waiting") ? null : (
                <span className="text-muted">
                  <Took from={step.began_at} to={step.ended_at} />
                </span>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
