/** One file of a patch: its head, and its lines when it is unfolded. */
import { ChevronRight } from "lucide-react";
import { memo, useId } from "react";
import type { ViewType } from "react-diff-view";
import { t } from "@/texts/texts";
import { Counts } from "./Counts";
import type { Commenting } from "./comments";
import { FileLines } from "./FileLines";
import type { FilePatch } from "./patch";

type Props = {
  file: FilePatch;
  viewType: ViewType;
  unfolded: boolean;
  fold: (path: string, unfolded: boolean) => void;
  commenting?: Commenting;
  mark?: string;
  about?: string;
};

export const FileCard = memo(function FileCard({ file, viewType, unfolded, fold, commenting, mark, about }: Props) {
  const id = useId();
  return (
    <section
      aria-labelledby={about === undefined ? id : undefined}
      aria-label={about === undefined ? undefined : `${file.path}: ${about}`}
      className="min-w-0 rounded-lg border border-line bg-surface [content-visibility:auto] [contain-intrinsic-size:auto_3rem]"
    >
      <h3 className="sticky top-0 z-10 rounded-lg bg-surface">
        <button
          type="button"
          id={id}
          data-file={file.path}
          aria-expanded={unfolded}
          onClick={() => fold(file.path, !unfolded)}
          className="flex w-full items-baseline gap-2 rounded-lg px-3 py-2 text-left hover:bg-raised"
        >
          <ChevronRight
            size={16}
            aria-hidden
            className={`shrink-0 self-center text-muted ${unfolded ? "rotate-90" : ""}`}
          />
          <span className="min-w-0 flex-1 font-mono text-[0.93em] break-all">
            {file.before === null ? null : <span className="text-muted">{file.before} → </span>}
            <span className="font-semibold">{file.path}</span>
          </span>
          {mark === undefined ? null : <span className="rounded-full bg-wait-soft px-2 text-wait">{mark}</span>}
          {file.kind === "modified" ? null : <span className="text-muted">{t.diff.kinds[file.kind]}</span>}
          <Counts insertions={file.insertions} deletions={file.deletions} binary={file.binary} />
        </button>
      </h3>
      {unfolded ? (
        <div className="overflow-x-auto rounded-b-lg border-t border-line">
          {file.binary ? (
            <p className="px-3 py-2 text-muted">{t.diff.binary}</p>
          ) : file.insertions + file.deletions === 0 ? (
            <p className="px-3 py-2 text-muted">{t.diff.noLines}</p>
          ) : (
            <FileLines file={file} viewType={viewType} commenting={commenting} />
          )}
        </div>
      ) : null}
    </section>
  );
});
