/** Files of the code, as they stood when it was asked. */
import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import type { FileEntry } from "@/api/documents";
import { filesQuery, fileQuery } from "@/api/files";
import { Asked } from "@/parts/Asked";
import { Button } from "@/parts/Button";
import { Folding } from "@/parts/Folding";
import { LazyPreview } from "@/parts/preview/LazyPreview";
import { saveBlob } from "@/parts/saving";
import { bytes } from "@/texts/format";
import { t } from "@/texts/texts";

/** `pattern`: as the plan names them. */
export function FilesShown({ task, pattern, commit }: { task: string; pattern: string; commit: string }) {
  const files = useQuery(filesQuery(task, pattern, commit));
  return (
    <Asked query={files}>
      {({ items, next }) => (
        <>
          {items.map((file) => (
            <FileShown key={file.path} task={task} file={file} commit={commit} />
          ))}
          {items.length === 0 ? <p className="text-muted">{t.approval.noFile(pattern)}</p> : null}
          {next === null ? null : <p className="text-muted">{t.approval.moreFiles(items.length, pattern)}</p>}
        </>
      )}
    </Asked>
  );
}

type Props = { task: string; file: FileEntry; commit: string };

function FileShown({ task, file, commit }: Props) {
  const head = (
    <>
      <span className="min-w-0 flex-1 font-mono text-[0.93em] font-semibold break-all">{file.path}</span>
      <span className="text-muted tabular-nums">{file.kind === "link" ? t.approval.link : bytes(file.size_bytes)}</span>
    </>
  );
  return (
    <div className="rounded-lg border border-line bg-surface">
      {file.kind === "link" ? (
        <p className="flex flex-wrap items-baseline gap-x-3 px-3 py-2">{head}</p>
      ) : (
        <Folding head={head}>
          <Content task={task} file={file} commit={commit} />
        </Folding>
      )}
    </div>
  );
}

function Content({ task, file, commit }: Props) {
  const content = useQuery(fileQuery(task, file.path, commit));
  return (
    <Asked query={content}>
      {(blob) => (
        <div className="flex flex-col gap-2">
          <LazyPreview blob={blob} name={file.path} mediaType={blob.type} />
          <Button
            look="quiet"
            icon={<Download size={14} aria-hidden />}
            className="self-end"
            aria-label={`${t.artifacts.download}: ${file.path}`}
            onClick={() => saveBlob(blob, file.path)}
          >
            {t.artifacts.download}
          </Button>
        </div>
      )}
    </Asked>
  );
}
