/** What an act will make stale, named before it is done.  That it cannot be told, the act will tell. */
import { useQuery } from "@tanstack/react-query";
import type { Foreseen as Document } from "@/api/documents";
import { type ForeseenAct, foreseenQuery } from "@/api/steps";
import { t } from "@/texts/texts";

const SHOWN_MAX = 60;

export function Foreseen({ task, step, act }: { task: string; step: string; act: ForeseenAct }) {
  const { data } = useQuery(foreseenQuery(task, step, act));
  return (
    <div aria-live="polite" className="max-h-64 overflow-y-auto text-sm">
      {data === undefined ? null : <Lists seen={data} />}
    </div>
  );
}

function Lists({ seen }: { seen: Document }) {
  const words = t.foreseen;
  const lists = (
    [
      [words.again, seen.again],
      [words.begins, seen.begins],
      [words.skipped, seen.skipped],
      [words.kept, seen.kept],
      [words.gone, seen.gone],
    ] as const
  ).filter(([, keys]) => keys.length > 0);
  return (
    <>
      {seen.revised ? <p>{words.revised}</p> : null}
      {seen.asks ? <p>{words.asks}</p> : null}
      <dl className="flex flex-col gap-1">
        {lists.map(([word, keys]) => (
          <div key={word}>
            <dt className="text-muted">{word}</dt>
            <dd className="break-words">
              {keys.slice(0, SHOWN_MAX).join(", ")}
              {keys.length > SHOWN_MAX ? ` ${words.more(keys.length - SHOWN_MAX)}` : ""}
            </dd>
          </div>
        ))}
      </dl>
      {Object.entries(seen.items_kept).map(([key, items]) => (
        <p key={key}>{words.items(key, items)}</p>
      ))}
    </>
  );
}
