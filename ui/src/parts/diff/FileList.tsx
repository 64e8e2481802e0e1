/** The files of a patch, with how much of each has changed. */
import { ChevronRight, MessageSquare } from "lucide-react";
import { moveAmongRows } from "@/parts/rows";
import { t } from "@/texts/texts";
import { Counts } from "./Counts";
import type { Comment } from "./comments";
import type { FilePatch } from "./patch";

const OPEN_MAX = 12; // a longer list is folded at first

type Props = {
  files: readonly FilePatch[];
  comments: readonly Comment[];
  marks?: ReadonlyMap<string, string>;
  look: (path: string) => void;
};

export function FileList({ files, comments, marks, look }: Props) {
  return (
    <details open={files.length <= OPEN_MAX} className="group rounded-lg border border-line bg-surface">
      <summary className="flex list-none items-center gap-2 rounded-lg px-3 py-1.5 font-medium hover:bg-raised">
        <ChevronRight size={16} aria-hidden className="text-muted group-open:rotate-90" />
        {t.diff.list}
      </summary>
      <ul onKeyDown={moveAmongRows} className="border-t border-line py-1">
        {files.map((file) => {
          const own = comments.filter((comment) => comment.path === file.path).length;
          return (
            <li key={file.path}>
              <button
                type="button"
                data-row
                onClick={() => look(file.path)}
                className="flex w-full items-baseline gap-2 px-3 py-0.5 text-left hover:bg-raised pointer-coarse:py-1.5"
              >
                <span className="min-w-0 flex-1 font-mono text-[0.93em] break-all">{file.path}</span>
                {marks?.has(file.path) ? <span className="text-wait">{marks.get(file.path)}</span> : null}
                {own > 0 ? (
                  <span className="inline-flex items-center gap-1 self-center text-accent" title={t.diff.comments(own)}>
                    <MessageSquare size={13} role="img" aria-label={t.diff.comments(own)} />
                    {own}
                  </span>
                ) : null}
                {file.kind === "modified" ? null : <span className="text-muted">{t.diff.kinds[file.kind]}</span>}
                <Counts insertions={file.insertions} deletions={file.deletions} binary={file.binary} />
              </button>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
