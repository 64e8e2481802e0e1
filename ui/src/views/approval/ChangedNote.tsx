/** What is asked is no longer what was seen. */
import { RefreshCw } from "lucide-react";
import { Button } from "@/parts/Button";

type Props = { title: string; changes: readonly string[]; act?: { word: string; go: () => void } };

export function ChangedNote({ title, changes, act }: Props) {
  return (
    <div
      id="changed"
      role="alert"
      tabIndex={-1}
      className="flex flex-wrap items-start gap-x-3 gap-y-2 rounded-lg border border-wait bg-wait-soft px-3 py-2"
    >
      <RefreshCw size={16} aria-hidden className="mt-0.5 shrink-0 text-wait" />
      <div className="min-w-0 flex-1">
        <p className="font-medium">{title}</p>
        <ul className="list-disc pl-5">
          {changes.map((change) => (
            <li key={change} className="break-words">
              {change}
            </li>
          ))}
        </ul>
      </div>
      {act === undefined ? null : (
        <Button look="main" onClick={act.go}>
          {act.word}
        </Button>
      )}
    </div>
  );
}
