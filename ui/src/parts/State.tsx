/** A state or a status: by shape, by colour and by its word. */
import { memo, type ReactNode } from "react";
import { t, worded } from "@/texts/texts";

type Look = { shape: Shape; ink: string; soft: string };
type Shape = "dot" | "ring" | "disc" | "diamond" | "half" | "check" | "cross" | "barred" | "dash" | "bars";

const OK = { ink: "text-ok", soft: "bg-ok-soft" };
const RUN = { ink: "text-run", soft: "bg-run-soft" };
const WAIT = { ink: "text-wait", soft: "bg-wait-soft" };
const BAD = { ink: "text-bad", soft: "bg-bad-soft" };
const OFF = { ink: "text-muted", soft: "bg-raised" };

const LOOKS: Readonly<Record<string, Look>> = {
  blocked: { shape: "dot", ...OFF },
  upcoming: { shape: "dot", ...OFF },
  ready: { shape: "ring", ink: "text-ink", soft: "bg-raised" },
  queued: { shape: "ring", ink: "text-ink", soft: "bg-raised" },
  ahead: { shape: "ring", ...RUN },
  running: { shape: "disc", ...RUN },
  merging: { shape: "half", ...RUN },
  waiting: { shape: "diamond", ...WAIT },
  paused: { shape: "bars", ...WAIT },
  completed: { shape: "check", ...OK },
  failed: { shape: "cross", ...BAD },
  lost: { shape: "cross", ...BAD },
  cancelled: { shape: "barred", ...BAD },
  cancelling: { shape: "barred", ...BAD },
  skipped: { shape: "dash", ...OFF },
};
const WAITING: Look = { shape: "diamond", ...WAIT };
const OTHER: Look = { shape: "ring", ...OFF };

function lookOf(state: string): Look {
  return LOOKS[state] ?? (state.startsWith("waiting") ? WAITING : OTHER);
}

/** The word that a state or a status is told by. */
export function stateText(state: string): string {
  return t.words.status[state] ?? worded(t.words.state, state);
}

/** The shape alone; beside it stands the word, or `named` gives it to those who do not see the shape. */
export const StateMark = memo(function StateMark({ state, named = false }: { state: string; named?: boolean }) {
  const { shape, ink } = lookOf(state);
  const name = named ? { role: "img", "aria-label": stateText(state) } : { "aria-hidden": true };
  return (
    <svg
      {...name}
      viewBox="0 0 16 16"
      width="14"
      height="14"
      className={`inline-block shrink-0 ${ink} ${shape === "disc" ? "running-mark" : ""}`}
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      {DRAWN[shape]}
    </svg>
  );
});

const DRAWN: Readonly<Record<Shape, ReactNode>> = {
  dot: <circle cx="8" cy="8" r="2" fill="currentColor" stroke="none" />,
  ring: <circle cx="8" cy="8" r="5" />,
  disc: <circle cx="8" cy="8" r="5.5" fill="currentColor" stroke="none" />,
  diamond: <path d="M8 1.5 14.5 8 8 14.5 1.5 8Z" fill="currentColor" stroke="none" />,
  half: (
    <>
      <circle cx="8" cy="8" r="5" />
      <path d="M8 3a5 5 0 0 1 0 10Z" fill="currentColor" stroke="none" />
    </>
  ),
  check: <path d="m3 8.5 3.2 3.2L13 4.8" />,
  cross: <path d="m4 4 8 8m0-8-8 8" />,
  barred: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="m4.5 11.5 7-7" />
    </>
  ),
  dash: <path d="M4 8h8" />,
  bars: <path d="M5.5 4v8m5-8v8" />,
};

/** Mark and word; `text`: another word for it. */
export function State({ state, filled = false, text }: { state: string; filled?: boolean; text?: string }) {
  const { ink, soft } = lookOf(state);
  return (
    <span
      className={`inline-flex items-center gap-1.5 whitespace-nowrap ${ink} ${filled ? `${soft} rounded-full px-2 py-0.5 font-medium` : ""}`}
    >
      <StateMark state={state} />
      {text ?? stateText(state)}
    </span>
  );
}
