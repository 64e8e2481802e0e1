/** What a task's time went into: one bar that is all of it, and the same in words. */
import { percent } from "@/parts/time/scale";
import { duration } from "@/texts/format";
import { t } from "@/texts/texts";
import { LOOKS } from "./looks";
import type { MomentKind, Totals as Sums } from "./partition";

const SHOWN: readonly MomentKind[] = ["working", "merging", "waiting", "queued", "idle"];

const LEAST_MS = 50; // less is told as nothing at all

type Props = {
  totals: Sums;
  /** ms that all attempts ran, side by side or not. */
  work: number;
};

export function Totals({ totals, work }: Props) {
  const whole = SHOWN.reduce((sum, kind) => sum + totals[kind], 0);
  const kinds = SHOWN.filter((kind) => totals[kind] >= LEAST_MS);
  return (
    <section aria-label={t.timeline.totals} className="flex flex-col gap-2">
      <div aria-hidden className="flex h-3 overflow-hidden rounded-full border border-line bg-surface">
        {kinds.map((kind) => (
          <span
            key={kind}
            className={`min-w-0.5 ${LOOKS[kind]}`}
            style={{ width: percent(totals[kind] / Math.max(whole, 1)) }}
          />
        ))}
      </div>
      <dl className="flex flex-wrap gap-x-6 gap-y-1">
        {kinds.map((kind) => (
          <div key={kind} className="flex items-center gap-2">
            <dt className="flex items-center gap-2 text-muted">
              <span aria-hidden className={`inline-block h-3 w-5 rounded-sm border border-line ${LOOKS[kind]}`} />
              {t.timeline.kinds[kind]}
            </dt>
            <dd className="tabular-nums">
              {duration(totals[kind])}{" "}
              <span className="text-muted">{t.timeline.share(totals[kind] / Math.max(whole, 1))}</span>
            </dd>
          </div>
        ))}
        <div className="flex gap-2 sm:ml-auto">
          <dt className="text-muted">{t.timeline.work}</dt>
          <dd className="tabular-nums" title={t.timeline.workHint}>
            {duration(work)}
          </dd>
        </div>
      </dl>
    </section>
  );
}
