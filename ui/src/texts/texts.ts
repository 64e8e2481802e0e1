/** The catalogue in use.  A translation is a file that fits `Texts`, chosen here. */
import { en } from "./en";

export type Texts = typeof en;

export const t: Texts = en;

/** The text of a word that may be newer than this page: the word itself then, as words. */
export function worded(texts: Readonly<Record<string, string>>, word: string): string {
  return texts[word] ?? word.replaceAll("_", " ");
}
