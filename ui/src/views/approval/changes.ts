/** What differs between what was seen and what is asked now. */
import type { Approval } from "@/api/documents";
import { filesOf } from "@/parts/diff/patch";
import { t } from "@/texts/texts";
import { shownOf, textOf } from "./asked";

const ID_CHARS = 12;

/** In words, the most telling first; never empty. */
export function changesOf(seen: Approval, now: Approval): string[] {
  const found: string[] = [];
  const [before, after] = [shownOf(seen), shownOf(now)];
  const [said, says] = [textOf(seen), textOf(now)];
  if (said.title !== says.title || said.more !== says.more) found.push(t.approval.changed.text);
  if (before.diff?.head !== after.diff?.head || before.diff?.base !== after.diff?.base) {
    found.push(
      after.diff === null
        ? t.approval.changed.noDiff
        : t.approval.changed.code(before.diff?.head.slice(0, ID_CHARS) ?? "–", after.diff.head.slice(0, ID_CHARS)),
    );
  } else if (before.head !== after.head) found.push(t.approval.changed.head);
  const digests = new Map(before.artifacts.map(({ name, digest }) => [name, digest]));
  for (const { name, digest } of after.artifacts) {
    if (digests.get(name) !== digest) found.push(t.approval.changed.artifact(name));
    digests.delete(name);
  }
  for (const name of digests.keys()) found.push(t.approval.changed.artifactGone(name));
  if (before.files.join("\n") !== after.files.join("\n")) found.push(t.approval.changed.files);
  if (JSON.stringify(before.call) !== JSON.stringify(after.call)) found.push(t.approval.changed.call);
  if (JSON.stringify(seen.question.result) !== JSON.stringify(now.question.result))
    found.push(t.approval.changed.steps);
  else if (before.reason !== after.reason) found.push(t.approval.changed.reason);
  if (seen.who.join("\n") !== now.who.join("\n")) found.push(t.approval.changed.who);
  if (found.length === 0) found.push(t.approval.changed.again);
  return found;
}

/** The files whose changes are others than those that were seen, each with a word for it. */
export function marksOf(seen: string, now: string): ReadonlyMap<string, string> {
  const before = new Map(filesOf(seen).map((file) => [file.path, linesOf(file.text)]));
  const marks = new Map<string, string>();
  for (const file of filesOf(now)) {
    const text = before.get(file.path);
    if (text === undefined) marks.set(file.path, t.approval.marks.new);
    else if (text !== linesOf(file.text)) marks.set(file.path, t.approval.marks.changed);
  }
  return marks;
}

/** Without the ids of blobs, which tell nothing to people. */
function linesOf(text: string): string {
  return text.replace(/^index .*$/m, "");
}
