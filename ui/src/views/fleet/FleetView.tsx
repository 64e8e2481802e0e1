/** Who works, and what waits for somebody to work on it. */
import { useQuery } from "@tanstack/react-query";
import type { Fleet, Pool, Worker } from "@/api/documents";
import { fleetQuery } from "@/api/installation";
import { Age } from "@/parts/Age";
import { Asked } from "@/parts/Asked";
import { CopyText } from "@/parts/CopyText";
import { Empty } from "@/parts/Empty";
import { Progress } from "@/parts/Progress";
import { StateMark } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";
import { Title } from "@/parts/Title";
import { count, duration } from "@/texts/format";
import { t } from "@/texts/texts";

const LATE_MS = 60_000; // ready for so long: there are too few workers

export function FleetView() {
  const fleet = useQuery(fleetQuery());
  return (
    <>
      <Title text={t.app.fleet} />
      <Asked query={fleet}>
        {(shown) => (
          <div className="flex flex-col gap-6">
            <Unserved fleet={shown} />
            <section>
              <h2 className="mb-2 font-semibold">{t.fleet.workers}</h2>
              {shown.workers.length === 0 ? (
                <Empty title={t.fleet.noWorker}>
                  {t.fleet.start} <CopyText text="longtask worker" />
                </Empty>
              ) : (
                <Table label={t.fleet.workers} columns={WORKERS} rows={shown.workers} rowKey={(worker) => worker.id} />
              )}
            </section>
            {shown.pools.length === 0 ? null : (
              <section>
                <h2 className="mb-2 font-semibold">{t.fleet.pools}</h2>
                <Table label={t.fleet.pools} columns={POOLS} rows={shown.pools} rowKey={(pool) => pool.pool} />
              </section>
            )}
          </div>
        )}
      </Asked>
    </>
  );
}

function Unserved({ fleet }: { fleet: Fleet }) {
  const pools = fleet.pools.filter((pool) => pool.ready > 0 && pool.workers === 0);
  if (pools.length === 0) return null;
  return (
    <ul aria-label={t.fleet.unserved} className="flex flex-col gap-1">
      {pools.map(({ pool, ready }) => (
        <li key={pool} className="flex flex-wrap items-center gap-x-3 gap-y-1 rounded-md bg-wait-soft px-2.5 py-1.5">
          <span className="inline-flex items-center gap-2">
            <StateMark state="waiting" />
            {t.fleet.nobody(pool, ready)}
          </span>
          <CopyText text={pool === "default" ? "longtask worker" : `longtask worker --pool ${pool}`} />
        </li>
      ))}
    </ul>
  );
}

const WORKERS: ReadonlyArray<Column<Worker>> = [
  {
    key: "worker",
    title: t.fleet.worker,
    cell: ({ id, alive }) => (
      <span className="inline-flex items-center gap-2">
        <StateMark state={alive ? "completed" : "lost"} />
        <span className="font-medium whitespace-nowrap">{id}</span>
        <span className={alive ? "text-ok" : "text-bad"}>{alive ? t.fleet.alive : t.fleet.dead}</span>
      </span>
    ),
  },
  {
    key: "host",
    title: t.fleet.host,
    cell: ({ host, pid }) => <span className="whitespace-nowrap">{t.fleet.process(host, pid)}</span>,
  },
  { key: "pools", title: t.fleet.pools, cell: ({ pools }) => pools.join(", ") },
  {
    key: "slots",
    title: t.fleet.slots,
    cell: ({ id, running, slots }) => <Progress done={running} total={slots} label={`${t.fleet.slots}: ${id}`} />,
  },
  {
    key: "lag",
    title: t.fleet.lag,
    right: true,
    cell: ({ lag_ms: lag, alive }) => <span className={alive ? "" : "text-bad"}>{duration(lag)}</span>,
  },
  { key: "since", title: t.fleet.since, right: true, wide: true, cell: ({ started_at: at }) => <Age at={at} /> },
  {
    key: "version",
    title: t.fleet.version,
    wide: true,
    cell: ({ version }) => version ?? <span className="text-muted">{t.words.unknown}</span>,
  },
];

const POOLS: ReadonlyArray<Column<Pool>> = [
  { key: "pool", title: t.fleet.pool, cell: ({ pool }) => <span className="font-medium">{pool}</span> },
  { key: "workers", title: t.fleet.workers, right: true, cell: ({ workers }) => count(workers) },
  {
    key: "slots",
    title: t.fleet.slots,
    right: true,
    cell: ({ slots }) => (slots === null ? <span title={t.fleet.besides}>–</span> : count(slots)),
  },
  { key: "ready", title: t.fleet.ready, right: true, cell: ({ ready }) => count(ready) },
  {
    key: "oldest",
    title: t.fleet.oldest,
    right: true,
    cell: ({ oldest_ready_ms: oldest }) =>
      oldest === null ? (
        <span className="text-muted">–</span>
      ) : (
        <span className={oldest > LATE_MS ? "font-medium text-wait" : ""}>{duration(oldest)}</span>
      ),
  },
];
