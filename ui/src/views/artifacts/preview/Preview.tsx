/** An artifact, shown without being run: what it is made of comes from whoever wrote the plan. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { artifactQuery } from "@/api/artifacts";
import type { Artifact } from "@/api/documents";
import { Asked } from "@/parts/Asked";
import { LazyPatch } from "@/parts/diff/LazyPatch";
import { Empty } from "@/parts/Empty";
import { bytes } from "@/texts/format";
import { t } from "@/texts/texts";
import { JsonTree } from "./JsonTree";
import { Markdown } from "./Markdown";
import { type PreviewKind, previewKind } from "./kind";

const SHOWN_MAX_BYTES = 5_000_000; // a browser chokes on more
const TEXT_MAX_CHARS = 400_000;

export function Preview({ task, artifact }: { task: string; artifact: Artifact }) {
  const kind = previewKind(artifact.media_type, artifact.name);
  if (kind === "none") return <Empty title={t.artifacts.noPreview}>{t.artifacts.noPreviewWhy}</Empty>;
  if (artifact.size_bytes > SHOWN_MAX_BYTES) {
    return <Empty title={t.artifacts.tooLarge(bytes(artifact.size_bytes))}>{t.artifacts.noPreviewWhy}</Empty>;
  }
  return <Fetched task={task} artifact={artifact} kind={kind} />;
}

function Fetched({ task, artifact, kind }: { task: string; artifact: Artifact; kind: PreviewKind }) {
  const body = useQuery(artifactQuery(task, artifact.name, artifact.digest));
  return (
    <Asked query={body}>
      {(blob) => (kind === "image" ? <Picture blob={blob} artifact={artifact} /> : <Read blob={blob} kind={kind} />)}
    </Asked>
  );
}

/** The bytes under an address of this page; it ends with the view. */
function Picture({ blob, artifact }: { blob: Blob; artifact: Artifact }) {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([blob], { type: artifact.media_type }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [blob, artifact.media_type]);
  return address === null ? null : (
    <img src={address} alt={artifact.name} className="max-w-full rounded border border-line bg-raised" />
  );
}

function Read({ blob, kind }: { blob: Blob; kind: PreviewKind }) {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    void blob.text().then((read) => {
      if (wanted) setText(read);
    });
    return () => {
      wanted = false;
    };
  }, [blob]);
  if (text === null) return null;
  switch (kind) {
    case "markdown":
      return text.length > TEXT_MAX_CHARS ? <Plain text={text} /> : <Markdown text={text} />;
    case "diff":
      return text.length > TEXT_MAX_CHARS ? <Plain text={text} /> : <LazyPatch patch={text} />;
    case "json":
      return <Json text={text} />;
    default:
      return <Plain text={text} />;
  }
}

function Json({ text }: { text: string }) {
  const parsed = useMemo(() => {
    try {
      return { value: JSON.parse(text) as unknown };
    } catch {
      return null; // it only says that it is JSON
    }
  }, [text]);
  if (parsed === null) return <Plain text={text} />;
  return (
    <div className="overflow-x-auto font-mono text-[0.93em]">
      <JsonTree value={parsed.value} />
    </div>
  );
}

function Plain({ text }: { text: string }) {
  return (
    <>
      <pre
        tabIndex={0}
        aria-label={t.artifacts.text}
        className="max-h-[75dvh] overflow-auto rounded border border-line bg-ground p-2.5 font-mono text-[0.93em]"
      >
        {text.slice(0, TEXT_MAX_CHARS)}
      </pre>
      {text.length > TEXT_MAX_CHARS ? <p className="mt-1 text-muted">{t.artifacts.textCut}</p> : null}
    </>
  );
}
