import type { ReactNode } from "react";

type Props = { name: string; children: ReactNode; className?: string; title?: string; scrolls?: boolean };

/** A row of a list of definitions: what it is called, and what it is.  `scrolls`: it is reached by the keyboard. */
export function Fact({ name, children, className, title, scrolls = false }: Props) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className={className} title={title} tabIndex={scrolls ? 0 : undefined}>
        {children}
      </dd>
    </>
  );
}
