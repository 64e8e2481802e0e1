/** How an artifact is shown, by what it says that it is, else by its name. */

export type PreviewKind = "markdown" | "diff" | "json" | "image" | "text" | "none";

const IMAGES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BY_TYPE: Readonly<Record<string, PreviewKind>> = {
  "text/markdown": "markdown",
  "text/x-diff": "diff",
  "text/x-patch": "diff",
  "application/json": "json",
};
const BY_NAME: ReadonlyArray<readonly [RegExp, PreviewKind]> = [
  [/\.(md|markdown)$/i, "markdown"],
  [/\.(diff|patch)$/i, "diff"],
  [/\.json$/i, "json"],
  [/\.(txt|log|csv|tsv|ya?ml|toml|ini|xml|html?|py|ts|js|sh|sql|jsonl|ndjson)$/i, "text"],
];

export function previewKind(mediaType: string, name: string): PreviewKind {
  const type = (mediaType.split(";", 1)[0] ?? "").trim().toLowerCase();
  if (IMAGES.has(type)) return "image";
  const known = BY_TYPE[type] ?? (type.endsWith("+json") ? "json" : undefined);
  if (known !== undefined) return known;
  const named = BY_NAME.find(([pattern]) => pattern.test(name))?.[1];
  return named ?? (type.startsWith("text/") ? "text" : "none");
}
