/** What has changed, file by file: those that are large, or come late, are folded. */
import { Columns2, Rows3 } from "lucide-react";
import { type KeyboardEvent, useCallback, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { ViewType } from "react-diff-view";
import { Empty } from "@/parts/Empty";
import { isTyping } from "@/parts/rows";
import { t } from "@/texts/texts";
import { Counts } from "./Counts";
import type { Commenting } from "./comments";
import { FileCard } from "./FileCard";
import { FileList } from "./FileList";
import { type FilePatch, filesOf } from "./patch";

const FILE_LINES_MAX = 400; // changed lines of a file that is unfolded at first
const ALL_LINES_MAX = 3_000; // of all that are
const WIDE = "(min-width: 900px)"; // two sides need room

type Props = {
  patch: string;
  /** Absent: nobody is asked about it. */
  commenting?: Commenting;
  /** Files that are marked, with the mark: since one looked first, say. */
  marks?: ReadonlyMap<string, string>;
  /** What sets it apart from another patch of the same files. */
  about?: string;
};

export function Patch({ patch, commenting, marks, about }: Props) {
  const files = useMemo(() => filesOf(patch), [patch]);
  const [folds, setFolds] = useState<Readonly<Record<string, boolean>>>({});
  const [split, setSplit] = useState(true);
  const wide = useWide();
  const cards = useRef<HTMLDivElement>(null);
  const usual = useMemo(() => unfoldedOf(files), [files]);
  const fold = useCallback(
    (path: string, unfolded: boolean) => setFolds((before) => ({ ...before, [path]: unfolded })),
    [],
  );
  const viewType: ViewType = split && wide ? "split" : "unified";

  const look = (path: string) => {
    fold(path, true);
    const heading = headingsIn(cards.current).find((one) => one.dataset.file === path);
    heading?.focus();
    heading?.scrollIntoView({ block: "start" });
  };

  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key !== "]" && event.key !== "[") return;
    const headings = headingsIn(cards.current);
    const at = headings.findIndex((heading) => heading.closest("section")?.contains(document.activeElement));
    headings[Math.max(at + (event.key === "]" ? 1 : -1), 0)]?.focus();
    event.preventDefault();
  };

  if (files.length === 0) return <Empty title={t.diff.nothing} />;
  const insertions = files.reduce((sum, file) => sum + file.insertions, 0);
  const deletions = files.reduce((sum, file) => sum + file.deletions, 0);
  const allUnfolded = files.every((file) => folds[file.path] ?? usual.has(file.path));
  return (
    <div onKeyDown={press} className="flex min-w-0 flex-col gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span>
          {t.diff.files(files.length)} <Counts insertions={insertions} deletions={deletions} />
        </span>
        {commenting === undefined ? null : <span className="text-muted">{t.diff.hint}</span>}
        <span className="ml-auto flex items-center gap-1">
          {files.length > 1 ? (
            <button
              type="button"
              onClick={() => setFolds(Object.fromEntries(files.map((file) => [file.path, !allUnfolded])))}
              className="min-h-8 rounded-md px-2 text-muted hover:bg-raised hover:text-ink pointer-coarse:min-h-10"
            >
              {allUnfolded ? t.diff.foldAll : t.diff.unfoldAll}
            </button>
          ) : null}
          {wide ? <ViewSwitch split={split} setSplit={setSplit} /> : null}
        </span>
      </div>
      {files.length > 1 ? (
        <FileList files={files} comments={commenting?.comments ?? []} marks={marks} look={look} />
      ) : null}
      <div ref={cards} className="flex min-w-0 flex-col gap-3">
        {files.map((file) => (
          <FileCard
            key={file.path}
            file={file}
            viewType={viewType}
            unfolded={folds[file.path] ?? usual.has(file.path)}
            fold={fold}
            commenting={commenting}
            mark={marks?.get(file.path)}
            about={about}
          />
        ))}
      </div>
    </div>
  );
}

function headingsIn(cards: HTMLElement | null): HTMLElement[] {
  return [...(cards?.querySelectorAll<HTMLElement>("[data-file]") ?? [])];
}

function ViewSwitch({ split, setSplit }: { split: boolean; setSplit: (split: boolean) => void }) {
  const look =
    "inline-flex min-h-8 items-center gap-1.5 rounded-md px-2 text-muted hover:text-ink aria-pressed:bg-accent-soft aria-pressed:text-accent";
  return (
    <span role="group" aria-label={t.diff.look} className="inline-flex rounded-md border border-line">
      <button type="button" aria-pressed={split} onClick={() => setSplit(true)} className={look}>
        <Columns2 size={14} aria-hidden />
        {t.diff.split}
      </button>
      <button type="button" aria-pressed={!split} onClick={() => setSplit(false)} className={look}>
        <Rows3 size={14} aria-hidden />
        {t.diff.unified}
      </button>
    </span>
  );
}

/** The files that are unfolded as long as nobody has said otherwise. */
function unfoldedOf(files: readonly FilePatch[]): ReadonlySet<string> {
  const unfolded = new Set<string>();
  let left = ALL_LINES_MAX;
  for (const file of files) {
    const lines = file.insertions + file.deletions;
    if (lines === 0 || lines > FILE_LINES_MAX || lines > left) continue;
    left -= lines;
    unfolded.add(file.path);
  }
  return unfolded;
}

function useWide(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const query = matchMedia(WIDE);
      query.addEventListener("change", listener);
      return () => query.removeEventListener("change", listener);
    },
    () => matchMedia(WIDE).matches,
  );
}
