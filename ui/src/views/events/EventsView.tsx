/** What has happened, of a task or of all: the journal, read whole and followed. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router";
import type { JournalEvent } from "@/api/documents";
import { tasksQuery } from "@/api/tasks";
import { taskOf } from "@/live/touched";
import { Button } from "@/parts/Button";
import { Empty } from "@/parts/Empty";
import { type Journal, useJournal } from "@/parts/journal";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { useTaskParam } from "@/parts/params";
import { RowTree } from "@/parts/RowTree";
import { Title } from "@/parts/Title";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";
import { EventFilterBar } from "./EventFilterBar";
import { EventLine } from "./EventLine";
import { type Entry, entriesOf, filtersOf } from "./filters";

const ROW_PX = 31;

export function EventsView() {
  const task = useTaskParam();
  return task === "" ? <AllEvents /> : <EventsOfTask key={task} task={task} />;
}

function EventsOfTask({ task }: { task: string }) {
  return <Events journal={useJournal(task)} handles={null} />;
}

function AllEvents() {
  const tasks = useInfiniteQuery(tasksQuery());
  const pages = tasks.data?.pages;
  const handles = useMemo(
    () => new Map(pages?.flatMap((page) => page.items.map((task) => [task.id, task.handle] as const))),
    [pages],
  );
  return (
    <>
      <Title text={t.app.events} />
      <Events journal={useJournal(null)} handles={handles} />
    </>
  );
}

type Props = {
  journal: Journal;
  /** How tasks are called, by their ids; null where there is one alone. */
  handles: ReadonlyMap<string, string> | null;
};

function Events({ journal, handles }: Props) {
  const [params] = useSearchParams();
  const filters = useMemo(() => filtersOf(params), [params]);
  const { events, whole, stopped } = journal;
  const entries = useMemo(() => entriesOf(events, filters), [events, filters]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const list = useRef<HTMLDivElement>(null);
  useHeldPlace(list, entries, !filters.oldestFirst && whole);
  const turn = ({ id }: Entry) =>
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  return (
    <>
      <EventFilterBar events={events} handles={handles} />
      {journal.error === null ? null : <ProblemNote error={journal.error} onRetry={journal.more} />}
      <p className="mb-1.5 flex flex-wrap items-center gap-3 text-muted">
        {entries.length === events.length
          ? t.events.count(events.length)
          : t.events.of(count(entries.length), count(events.length))}
        {whole ? null : stopped ? (
          <>
            {t.events.stopped}
            <Button onClick={journal.more}>{t.events.more}</Button>
          </>
        ) : (
          <span>{t.events.reading}</span>
        )}
      </p>
      {entries.length > 0 ? (
        <div ref={list} className="rounded-lg border border-line bg-surface">
          <RowTree<Entry>
            label={t.task.tabs.events}
            rows={entries}
            idOf={(entry) => entry.id}
            rowPx={ROW_PX}
            onOpen={turn}
            onPick={turn}
            unfolded={(entry) => open.has(entry.id)}
            onFold={turn}
            tall={(entry) => open.has(entry.id)}
            draw={(entry, at) => (
              <EventLine
                entry={entry}
                dated={dayOf(entry) !== dayOf(entries[at - 1])}
                open={open.has(entry.id)}
                task={taskName(entry.event, handles)}
              />
            )}
          />
        </div>
      ) : whole ? (
        <Empty title={events.length > 0 ? t.events.noneFits : t.events.none} />
      ) : (
        <Loading />
      )}
    </>
  );
}

function taskName(event: JournalEvent, handles: Props["handles"]): string | null {
  if (handles === null) return null;
  const id = taskOf(event);
  return handles.get(id) ?? id.slice(0, 13);
}

function dayOf(entry: Entry | undefined): string {
  return entry === undefined ? "" : new Date(entry.event.time).toDateString();
}

/** What comes in at the top does not move what somebody reads further down. */
function useHeldPlace(list: React.RefObject<HTMLDivElement | null>, entries: readonly Entry[], held: boolean): void {
  const before = useRef<readonly Entry[]>([]);
  useLayoutEffect(() => {
    const first = before.current[0]?.id;
    before.current = entries;
    if (!held || first === undefined || (list.current?.getBoundingClientRect().top ?? 0) >= 0) return;
    const added = entries.findIndex((entry) => entry.id === first);
    if (added > 0) window.scrollBy({ top: added * ROW_PX, behavior: "instant" });
  }, [entries, held, list]);
}
