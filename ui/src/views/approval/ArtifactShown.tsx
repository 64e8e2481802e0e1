/** An artifact, exactly that which was shown when it was asked: its text or picture here, all else as a file. */
import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Link } from "react-router";
import { artifactQuery } from "@/api/artifacts";
import { Asked } from "@/parts/Asked";
import { artifactAddress } from "@/parts/addresses";
import { bytes } from "@/texts/format";
import { t } from "@/texts/texts";
import type { ShownArtifact } from "./asked";
import { Pre } from "./Pre";

const TEXT_BYTES_MAX = 300_000;
const PICTURE_BYTES_MAX = 5_000_000;
const TEXT = /^(text\/|application\/(json|x-ndjson|yaml|toml|sql|xml))/;
const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

export function ArtifactShown({ task, artifact }: { task: string; artifact: ShownArtifact }) {
  const { name, media_type: type, size_bytes: size } = artifact;
  const readable = TEXT.test(type) && size <= TEXT_BYTES_MAX;
  const Content = readable ? TextShown : PICTURE.test(type) && size <= PICTURE_BYTES_MAX ? PictureShown : null;
  const head = (
    <>
      <span className="min-w-0 flex-1 font-mono text-[0.93em] font-semibold break-all">{name}</span>
      <span className="text-muted">{type}</span>
      <span className="text-muted tabular-nums">{bytes(size)}</span>
    </>
  );
  return (
    <div className="rounded-lg border border-line bg-surface">
      {Content === null ? (
        <Link
          to={artifactAddress(task, name)}
          className="flex flex-wrap items-baseline gap-x-3 px-3 py-2 hover:underline"
        >
          {head}
        </Link>
      ) : (
        <Folding head={head}>
          <Content task={task} artifact={artifact} />
        </Folding>
      )}
    </div>
  );
}

/** What is folded is not loaded. */
function Folding({ head, children }: { head: ReactNode; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex list-none flex-wrap items-baseline gap-x-2 rounded-lg px-3 py-2 hover:bg-raised">
        <ChevronRight size={16} aria-hidden className="self-center text-muted group-open:rotate-90" />
        {head}
      </summary>
      {open ? <div className="border-t border-line px-3 py-2">{children}</div> : null}
    </details>
  );
}

type Props = { task: string; artifact: ShownArtifact };

function TextShown({ task, artifact }: Props) {
  const text = useQuery(artifactQuery(task, artifact.name, artifact.digest));
  return <Asked query={text}>{(blob) => <BlobText blob={blob} label={artifact.name} />}</Asked>;
}

function BlobText({ blob, label }: { blob: Blob; label: string }) {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    void blob.text().then((read) => gone || setText(read));
    return () => {
      gone = true;
    };
  }, [blob]);
  return text === null ? <p className="text-muted">{t.parts.loading}</p> : <Pre label={label} text={text} bare />;
}

function PictureShown({ task, artifact }: Props) {
  const picture = useQuery(artifactQuery(task, artifact.name, artifact.digest));
  return <Asked query={picture}>{(blob) => <BlobPicture blob={blob} label={artifact.name} />}</Asked>;
}

function BlobPicture({ blob, label }: { blob: Blob; label: string }) {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return address === null ? null : <img src={address} alt={label} className="max-h-[32rem] max-w-full" />;
}
