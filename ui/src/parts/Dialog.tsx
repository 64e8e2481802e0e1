/** A modal dialog: the browser's own, which keeps the focus inside and closes with Esc. */
import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { t } from "@/texts/texts";

type Props = { title: string; onClose: () => void; children: ReactNode; wide?: boolean };

/** Open as long as it is shown. */
export function Dialog({ title, onClose, children, wide = false }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog !== null && !dialog.open) dialog.showModal();
    dialog?.querySelector<HTMLElement>("input, textarea, select, [type=submit]")?.focus(); // not the cross above them
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={name}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onPointerDown={(event) => {
        if (event.target === ref.current) onClose();
      }}
      className={`w-[calc(100%-2rem)] rounded-lg border border-line bg-surface p-0 shadow-high ${wide ? "max-w-3xl" : "max-w-md"}`}
    >
      <div className="flex flex-col gap-3 p-4">
        <header className="flex items-start justify-between gap-4">
          <h2 id={name} className="text-base font-semibold">
            {title}
          </h2>
          <button
            type="button"
            aria-label={t.parts.close}
            onClick={onClose}
            className="rounded p-1 text-muted hover:text-ink"
          >
            <X size={16} aria-hidden />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
