/** An artifact, if it is one to look at. */
import { useQuery } from "@tanstack/react-query";
import { artifactQuery } from "@/api/artifacts";
import type { Artifact } from "@/api/documents";
import { Asked } from "@/parts/Asked";
import { Empty } from "@/parts/Empty";
import { previewKind } from "@/parts/preview/kind";
import { Preview, SHOWN_MAX_BYTES } from "@/parts/preview/Preview";
import { bytes } from "@/texts/format";
import { t } from "@/texts/texts";

export function ArtifactPreview({ task, artifact }: { task: string; artifact: Artifact }) {
  if (previewKind(artifact.media_type, artifact.name) === "none") {
    return <Empty title={t.preview.none}>{t.preview.noneWhy}</Empty>;
  }
  if (artifact.size_bytes > SHOWN_MAX_BYTES) {
    return <Empty title={t.preview.tooLarge(bytes(artifact.size_bytes))}>{t.preview.noneWhy}</Empty>;
  }
  return <Fetched task={task} artifact={artifact} />;
}

function Fetched({ task, artifact }: { task: string; artifact: Artifact }) {
  const body = useQuery(artifactQuery(task, artifact.name, artifact.digest));
  return (
    <Asked query={body}>{(blob) => <Preview blob={blob} name={artifact.name} mediaType={artifact.media_type} />}</Asked>
  );
}
