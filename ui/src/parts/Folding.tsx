/** A line that unfolds what belongs to it; what is folded is not there, and is not loaded. */
import { ChevronRight } from "lucide-react";
import { type ReactNode, useState } from "react";

export function Folding({ head, children }: { head: ReactNode; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex list-none flex-wrap items-baseline gap-x-2 rounded-lg px-3 py-2 hover:bg-raised">
        <ChevronRight size={16} aria-hidden className="self-center text-muted group-open:rotate-90" />
        {head}
      </summary>
      {open ? <div className="border-t border-line px-3 py-2">{children}</div> : null}
    </details>
  );
}
