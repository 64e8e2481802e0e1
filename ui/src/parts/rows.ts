/** Lists by keyboard: j and k or the arrows go from row to row.  A row is what bears `data-row`, and takes the focus. */
import type { KeyboardEvent } from "react";

const STEPS: Readonly<Record<string, (at: number, last: number) => number>> = {
  j: (at, last) => Math.min(at + 1, last),
  ArrowDown: (at, last) => Math.min(at + 1, last),
  k: (at) => Math.max(at - 1, 0),
  ArrowUp: (at) => Math.max(at - 1, 0),
  Home: () => 0,
  End: (_, last) => last,
};

export function moveAmongRows(event: KeyboardEvent<HTMLElement>): void {
  const step = STEPS[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-row]")];
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  event.preventDefault();
  rows[at < 0 ? 0 : step(at, rows.length - 1)]?.focus();
}

/** Keys go into a field there. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable=true]");
}
