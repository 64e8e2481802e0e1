/** Output as lines.  It comes in chunks, which end anywhere. */
import type { OutputChunk } from "@/api/documents";
import { PLAIN, type Pen, penBehind, plain } from "./ansi";

/** `text`: as it was written, with its colours; `pen`: how it begins; "gap": a part of a flood was left out here. */
export type Line = { text: string; pen: Pen; stream: "out" | "err" | "note" | "gap" };

export type Lines = {
  /** Grows in place; the last line may still be replaced by a longer one. */
  all: readonly Line[];
  add: (chunks: readonly OutputChunk[]) => void;
};

export function makeLines(): Lines {
  const all: Line[] = [];
  let open = false; // the last line has not ended
  let last = 0;

  function begin(text: string, stream: Line["stream"]): void {
    const before = all.at(-1);
    all.push({ text, pen: before === undefined ? PLAIN : penBehind(before.text, before.pen), stream });
  }

  function add(chunk: OutputChunk): void {
    const stream = streamOf(chunk.stream);
    if (last > 0 && chunk.n > last + 1) {
      begin("", "gap");
      open = false;
    }
    last = chunk.n;
    const parts = chunk.text.split("\n");
    parts.forEach((part, index) => {
      const before = all.at(-1);
      const ends = index < parts.length - 1;
      if (index === 0 && open && before?.stream === stream)
        all[all.length - 1] = { ...before, text: shownOf(before.text + part) };
      else if (part !== "" || ends) begin(shownOf(part), stream);
      else return;
      open = !ends;
    });
  }

  return { all, add: (chunks) => chunks.forEach(add) };
}

function streamOf(word: string): Line["stream"] {
  return word === "err" || word === "note" ? word : "out";
}

/** Of an overwritten line the last state; one that ends in a return may be overwritten yet, or not. */
function shownOf(text: string): string {
  if (!text.includes("\r")) return text;
  const ended = text.endsWith("\r") ? text.slice(0, -1) : text;
  const kept = ended.slice(ended.lastIndexOf("\r") + 1);
  return ended === text ? kept : `${kept}\r`;
}

/** All of it as a text, without colours. */
export function textOf(lines: readonly Line[], gap: string): string {
  return lines.map((line) => (line.stream === "gap" ? gap : plain(line.text))).join("\n");
}
