/** Filters of a journal: each change is a change of the address. */
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import type { JournalEvent } from "@/api/documents";
import { Button } from "@/parts/Button";
import { t } from "@/texts/texts";
import { changed, filtersOf, typesOf } from "./filters";

const LOOK = "min-h-8 rounded-md border border-line-strong bg-surface px-2 max-sm:text-base";

type Props = { events: readonly JournalEvent[]; handles: ReadonlyMap<string, string> | null };

export function EventFilterBar({ events, handles }: Props) {
  const [params, setParams] = useSearchParams();
  const filters = filtersOf(params);
  const { types, families } = useMemo(() => typesOf(events), [events]);
  const set = (key: string, value: string) => setParams((before) => changed(before, key, value), { replace: true });
  const filtered = filters.type !== "" || filters.step !== "" || filters.task !== "";
  const known = types.includes(filters.type) || families.includes(filters.type);
  return (
    <div role="search" aria-label={t.tasks.filter} className="mb-2 flex flex-wrap items-center gap-2">
      <select
        aria-label={t.events.type}
        className={LOOK}
        value={filters.type}
        onChange={(event) => set("type", event.target.value)}
      >
        <option value="">{t.events.anyType}</option>
        {known || filters.type === "" ? null : <option value={filters.type}>{filters.type}</option>}
        <optgroup label={t.events.families}>
          {families.map((family) => (
            <option key={family} value={family}>
              {family}*
            </option>
          ))}
        </optgroup>
        <optgroup label={t.events.types}>
          {types.map((type) => (
            <option key={type} value={type}>
              {type}
            </option>
          ))}
        </optgroup>
      </select>
      <input
        data-search
        type="search"
        aria-label={t.events.step}
        placeholder={t.events.step}
        className={`${LOOK} w-44`}
        value={filters.step}
        onChange={(event) => set("step", event.target.value)}
      />
      {handles === null ? null : (
        <select
          aria-label={t.events.task}
          className={`${LOOK} max-w-56`}
          value={filters.task}
          onChange={(event) => set("task", event.target.value)}
        >
          <option value="">{t.events.anyTask}</option>
          {filters.task === "" || handles.has(filters.task) ? null : (
            <option value={filters.task}>{filters.task.slice(0, 13)}</option>
          )}
          {[...handles].map(([id, handle]) => (
            <option key={id} value={id}>
              {handle}
            </option>
          ))}
        </select>
      )}
      <select
        aria-label={t.events.order}
        className={LOOK}
        value={filters.oldestFirst ? "oldest" : ""}
        onChange={(event) => set("order", event.target.value)}
      >
        <option value="">{t.events.newestFirst}</option>
        <option value="oldest">{t.events.oldestFirst}</option>
      </select>
      {filtered ? (
        <Button
          look="quiet"
          onClick={() =>
            setParams((before) => changed(changed(changed(before, "type", ""), "step", ""), "task", ""), {
              replace: true,
            })
          }
        >
          {t.tasks.clear}
        </Button>
      ) : null}
    </div>
  );
}
