/** An artifact, exactly that which was shown when it was asked: what can be looked at here, all else as a file. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { artifactQuery } from "@/api/artifacts";
import { Asked } from "@/parts/Asked";
import { artifactAddress } from "@/parts/addresses";
import { Folding } from "@/parts/Folding";
import { previewKind } from "@/parts/preview/kind";
import { LazyPreview } from "@/parts/preview/LazyPreview";
import { bytes } from "@/texts/format";
import type { ShownArtifact } from "./asked";

const BYTES_MAX = 5_000_000;

type Props = { task: string; artifact: ShownArtifact };

export function ArtifactShown({ task, artifact }: Props) {
  const { name, media_type: type, size_bytes: size } = artifact;
  const head = (
    <>
      <span className="min-w-0 flex-1 font-mono text-[0.93em] font-semibold break-all">{name}</span>
      <span className="text-muted">{type}</span>
      <span className="text-muted tabular-nums">{bytes(size)}</span>
    </>
  );
  return (
    <div className="rounded-lg border border-line bg-surface">
      {previewKind(type, name) === "none" || size > BYTES_MAX ? (
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

function Content({ task, artifact: { name, media_type, digest } }: Props) {
  const content = useQuery(artifactQuery(task, name, digest));
  return <Asked query={content}>{(blob) => <LazyPreview blob={blob} name={name} mediaType={media_type} />}</Asked>;
}
