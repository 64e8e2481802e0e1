/** A name and its value, in a list of such (`dl`). */
import type { ReactNode } from "react";

/** `wide`: values stand below each other, beside a column of names. */
export function Figure({ name, wide = false, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={wide ? "flex flex-col gap-0.5 sm:flex-row sm:gap-4" : "flex min-w-0 items-baseline gap-1.5"}>
      <dt className={`shrink-0 text-muted ${wide ? "w-28" : ""}`}>{name}</dt>
      <dd className="min-w-0 break-words tabular-nums">{children}</dd>
    </div>
  );
}
