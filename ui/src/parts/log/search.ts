/** Where a text stands in the output. */
import type { Line } from "./lines";
import { plain } from "./ansi";

export type Found = { words: string; upTo: number; at: readonly number[] };

export const NOTHING: Found = { words: "", upTo: 0, at: [] };

/** The lines that hold `words`, small or capital.  Goes on from what was found before; the last line may have grown. */
export function find(lines: readonly Line[], words: string, before: Found): Found {
  const wanted = words.toLowerCase();
  if (wanted === "") return NOTHING;
  const from = before.words === wanted ? Math.max(Math.min(before.upTo, lines.length) - 1, 0) : 0;
  const at = before.words === wanted ? before.at.filter((index) => index < from) : [];
  for (let index = from; index < lines.length; index += 1) {
    const line = lines[index];
    if (line !== undefined && plain(line.text).toLowerCase().includes(wanted)) at.push(index);
  }
  return { words: wanted, upTo: lines.length, at };
}

/** Its places in one line, [from, to). */
export function placesOf(text: string, words: string): [number, number][] {
  const wanted = words.toLowerCase();
  if (wanted === "") return [];
  const places: [number, number][] = [];
  const inside = text.toLowerCase();
  for (let at = inside.indexOf(wanted); at >= 0; at = inside.indexOf(wanted, at + wanted.length)) {
    places.push([at, at + wanted.length]);
  }
  return places;
}
