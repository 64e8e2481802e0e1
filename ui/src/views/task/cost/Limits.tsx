/** What has been spent of what may be. */
import type { TaskTree } from "@/api/documents";
import { count, money } from "@/texts/format";
import { t } from "@/texts/texts";

const NEAR = 0.8;

export function Limits({ task }: { task: TaskTree }) {
  return (
    <section aria-label={t.cost.spent} className="grid gap-3 sm:grid-cols-2">
      <Spent name={t.cost.cost} used={task.cost_micros} limit={task.cost_limit_micros} word={money} />
      <Spent name={t.cost.tokens} used={task.tokens} limit={task.tokens_limit} word={count} />
    </section>
  );
}

type Props = { name: string; used: number; limit: number | null; word: (n: number) => string };

function Spent({ name, used, limit, word }: Props) {
  const share = limit === null || limit === 0 ? 0 : Math.min(used / limit, 1);
  const look = share >= 1 ? "bg-bad" : share >= NEAR ? "bg-wait" : "bg-run";
  return (
    <div className="rounded-lg border border-line bg-surface px-4 py-3">
      <div className="text-muted">{name}</div>
      <div className="text-xl font-semibold tabular-nums">{word(used)}</div>
      {limit === null ? (
        <div className="text-muted">{t.cost.noLimit}</div>
      ) : (
        <>
          <div
            role="meter"
            aria-label={name}
            aria-valuemin={0}
            aria-valuemax={limit}
            aria-valuenow={Math.min(used, limit)}
            aria-valuetext={t.task.ofLimit(word(used), word(limit))}
            className="my-1.5 h-2 overflow-hidden rounded-full bg-raised ring-1 ring-line ring-inset"
          >
            <span className={`block h-full ${look}`} style={{ width: `${share * 100}%` }} />
          </div>
          <div className={share >= NEAR ? "text-wait" : "text-muted"}>
            {used >= limit ? t.cost.reached(word(limit)) : t.cost.left(word(limit - used), word(limit))}
          </div>
        </>
      )}
    </div>
  );
}
