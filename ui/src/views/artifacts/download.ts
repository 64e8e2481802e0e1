/** An artifact as a file of the reader's. */
import type { QueryClient } from "@tanstack/react-query";
import { artifactQuery } from "@/api/artifacts";
import type { Artifact } from "@/api/documents";
import { heldToken } from "@/api/token";
import { saveBlob } from "@/parts/saving";

/** A link's address; null when a token must go along, which no link can. */
export function plainAddress(task: string, artifact: Artifact): string | null {
  if (heldToken() !== null) return null;
  const name = artifact.name.split("/").map(encodeURIComponent).join("/");
  return `/v1/tasks/${encodeURIComponent(task)}/artifacts/${name}?digest=${encodeURIComponent(artifact.digest)}`;
}

export async function save(client: QueryClient, task: string, artifact: Artifact): Promise<void> {
  const blob = await client.fetchQuery(artifactQuery(task, artifact.name, artifact.digest));
  saveBlob(blob, artifact.name);
}
