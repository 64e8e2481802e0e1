/** The heading of a view, which is also what the browser's tab says. */
import { type ReactNode, useEffect } from "react";
import { t } from "@/texts/texts";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · ${t.app.name}` : t.app.name;
  }, [title]);
}

export function Title({ text, children }: { text: string; children?: ReactNode }) {
  useTitle(text);
  return (
    <header className="mb-3 flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
      <h1 className="text-xl font-semibold">{text}</h1>
      {children}
    </header>
  );
}
