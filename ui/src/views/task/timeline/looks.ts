/** How a kind of time is drawn: by pattern and by colour. */
import type { MomentKind } from "./partition";

const STRIPES = "bg-[repeating-linear-gradient(135deg,var(--wait)_0_1.5px,var(--wait-soft)_1.5px_6px)]";
const DOTS = "bg-[repeating-linear-gradient(90deg,var(--line-strong)_0_2px,transparent_2px_5px)]";

export const LOOKS: Readonly<Record<MomentKind, string>> = {
  working: "bg-run",
  merging: "bg-[repeating-linear-gradient(0deg,var(--run)_0_2px,var(--run-soft)_2px_4px)]",
  waiting: STRIPES,
  queued: DOTS,
  idle: "",
};

export const FAILED = "bg-bad";

/** Rounder and higher is what matters more. */
export const SHAPES: Readonly<Record<MomentKind, string>> = {
  working: "top-[7px] h-3.5 rounded-[3px]",
  merging: "top-[9px] h-2.5 rounded-sm",
  waiting: "top-[9px] h-2.5 rounded-sm",
  queued: "top-[13px] h-0.5",
  idle: "",
};
