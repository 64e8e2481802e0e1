import { Dialog } from "@/parts/Dialog";
import { t } from "@/texts/texts";

export function ShortcutList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t.app.shortcuts} onClose={onClose}>
      <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-1.5">
        {t.shortcuts.rows.map(([pressed, what]) => (
          <div key={pressed} className="contents">
            <dt className="flex gap-1">
              {pressed.split(/\s+/).map((key) => (
                <kbd key={key} className="min-w-6 rounded border border-line bg-raised px-1.5 text-center font-mono">
                  {key}
                </kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
