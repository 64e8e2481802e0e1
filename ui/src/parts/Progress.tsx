/** So much of so much: a bar, and the numbers. */
import { t } from "@/texts/texts";

type Props = {
  done: number;
  total: number;
  /** What progresses, for those who do not see where the bar stands. */
  label?: string;
  /** Beside the bar; the numbers when absent, nothing when empty. */
  text?: string;
  ink?: "run" | "ok" | "bad" | "wait";
};

const INKS = { run: "bg-run", ok: "bg-ok", bad: "bg-bad", wait: "bg-wait" } as const;

export function Progress({ done, total, label = t.parts.progress, text, ink = "run" }: Props) {
  const share = total > 0 ? Math.min(Math.max(done / total, 0), 1) : 0;
  const numbers = t.words.of(done, total);
  const shown = text ?? numbers;
  return (
    <span className="inline-flex min-w-0 items-center gap-2">
      <span
        role="progressbar"
        aria-label={label}
        aria-valuenow={done}
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuetext={numbers}
        className="inline-block h-1.5 w-24 shrink overflow-hidden rounded-full bg-raised ring-1 ring-line ring-inset"
      >
        <span className={`block h-full rounded-full ${INKS[ink]}`} style={{ width: `${share * 100}%` }} />
      </span>
      {shown === "" ? null : <span className="whitespace-nowrap tabular-nums">{shown}</span>}
    </span>
  );
}
