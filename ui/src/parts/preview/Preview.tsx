/** Bytes, shown without being run: what they hold comes from whoever wrote the plan, or from an agent. */
import { useEffect, useMemo, useState } from "react";
import { LazyPatch } from "@/parts/diff/LazyPatch";
import { Empty } from "@/parts/Empty";
import { t } from "@/texts/texts";
import { JsonTree } from "./JsonTree";
import { type PreviewKind, previewKind } from "./kind";
import { Markdown } from "./Markdown";

export const SHOWN_MAX_BYTES = 5_000_000; // a browser chokes on more
const TEXT_MAX_CHARS = 400_000;

type Props = { blob: Blob; name: string; mediaType: string };

export function Preview({ blob, name, mediaType }: Props) {
  const kind = previewKind(mediaType, name);
  if (kind === "none") return <Empty title={t.preview.none}>{t.preview.noneWhy}</Empty>;
  if (kind === "image") return <Picture blob={blob} name={name} mediaType={mediaType} />;
  return <Read blob={blob} kind={kind} name={name} />;
}

/** The bytes under an address of this page; it ends with the view. */
function Picture({ blob, name, mediaType }: Props) {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([blob], { type: mediaType }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [blob, mediaType]);
  return address === null ? null : (
    <img src={address} alt={name} className="max-h-[75dvh] max-w-full rounded border border-line bg-raised" />
  );
}

function Read({ blob, kind, name }: { blob: Blob; kind: PreviewKind; name: string }) {
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
      return text.length > TEXT_MAX_CHARS ? <Plain text={text} name={name} /> : <Markdown text={text} />;
    case "diff":
      return text.length > TEXT_MAX_CHARS ? <Plain text={text} name={name} /> : <LazyPatch patch={text} />;
    case "json":
      return <Json text={text} name={name} />;
    default:
      return <Plain text={text} name={name} />;
  }
}

function Json({ text, name }: { text: string; name: string }) {
  const parsed = useMemo(() => {
    try {
      return { value: JSON.parse(text) as unknown };
    } catch {
      return null; // it only says that it is JSON
    }
  }, [text]);
  if (parsed === null) return <Plain text={text} name={name} />;
  return (
    <div className="overflow-x-auto font-mono text-[0.93em]">
      <JsonTree value={parsed.value} />
    </div>
  );
}

function Plain({ text, name }: { text: string; name: string }) {
  return (
    <>
      <pre
        tabIndex={0}
        aria-label={t.preview.text(name)}
        className="max-h-[75dvh] overflow-auto rounded border border-line bg-ground p-2.5 font-mono text-[0.93em]"
      >
        {text.slice(0, TEXT_MAX_CHARS)}
      </pre>
      {text.length > TEXT_MAX_CHARS ? <p className="mt-1 text-muted">{t.preview.textCut}</p> : null}
    </>
  );
}
