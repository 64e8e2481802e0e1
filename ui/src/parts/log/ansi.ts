/** What a terminal shows of a line: its colours (SGR) in those that the page has; every other sequence is left out. */

/** How letters are written: a colour (1 to 8, 0 for none) and marks. */
export type Pen = number;
export type Span = { text: string; pen: Pen };

export const PLAIN: Pen = 0;
const COLOUR = 15;
const BOLD = 16;
const FAINT = 32;
const ITALIC = 64;
const UNDERLINE = 128;
const STRUCK = 256;
const RAISED = 512; // on a ground of its own, or inverse

// Colours and movements; titles and links; other short ones.
const SEQUENCE =
  /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b\n]{0,1000}(?:\x07|\x1b\\)?|[()*+#%][0-9A-Za-z@]|[@-Z\\-_=>78c])/g;
const SET = /\x1b\[([0-9;:]*)m/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const ON: Readonly<Record<number, Pen>> = {
  1: BOLD,
  2: FAINT,
  3: ITALIC,
  4: UNDERLINE,
  7: RAISED,
  9: STRUCK,
};
const OFF: Readonly<Record<number, Pen>> = {
  22: BOLD | FAINT,
  23: ITALIC,
  24: UNDERLINE,
  27: RAISED,
  29: STRUCK,
  39: COLOUR,
  49: RAISED,
};
const INKS = [
  "",
  "text-muted",
  "text-bad",
  "text-ok",
  "text-wait",
  "text-accent",
  "text-accent",
  "text-run",
  "text-ink",
];
const WHITE = 8;
const BLACK = 1;

/** The line in pieces of one pen each.  `first`: the pen that it begins with. */
export function spansOf(line: string, first: Pen): Span[] {
  const spans: Span[] = [];
  let pen = first;
  let at = 0;
  for (const match of line.matchAll(SEQUENCE)) {
    add(spans, line.slice(at, match.index), pen);
    at = match.index + match[0].length;
    if (match[2] === "m") pen = penAfter(pen, match[1] ?? "");
  }
  add(spans, line.slice(at), pen);
  return spans;
}

function add(spans: Span[], raw: string, pen: Pen): void {
  const text = raw.replace(CONTROLS, "");
  if (text !== "") spans.push({ text, pen });
}

/** The pen that the next line begins with. */
export function penBehind(line: string, pen: Pen): Pen {
  const end = line.lastIndexOf("\x1b[");
  if (end < 0) return pen;
  if (line.startsWith("0m", end + 2) || line.startsWith("m", end + 2)) return PLAIN;
  let last = pen;
  for (const match of line.matchAll(SET)) last = penAfter(last, match[1] ?? "");
  return last;
}

/** The line without colours and controls. */
export function plain(line: string): string {
  return (line.includes("\x1b") ? line.replace(SEQUENCE, "") : line).replace(CONTROLS, "");
}

export function classOf(pen: Pen): string {
  if (pen === PLAIN) return "";
  const marks = [
    INKS[pen & COLOUR],
    pen & BOLD ? "font-semibold" : "",
    pen & FAINT ? "text-muted" : "",
    pen & ITALIC ? "italic" : "",
    pen & UNDERLINE ? "underline" : "",
    pen & STRUCK ? "line-through" : "",
    pen & RAISED ? "bg-raised" : "",
  ];
  return marks.filter(Boolean).join(" ");
}

function penAfter(before: Pen, words: string): Pen {
  const codes = words.split(/[;:]/).map(Number);
  let pen = before;
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i] ?? 0;
    if (code === 0) pen = PLAIN;
    else if (ON[code] !== undefined) pen |= ON[code];
    else if (OFF[code] !== undefined) pen &= ~OFF[code];
    else if (code === 38 || code === 48) {
      const [colour, length] = extended(codes.slice(i + 1));
      pen = code === 38 ? coloured(pen, colour) : pen | RAISED;
      i += length;
    } else if (code >= 30 && code <= 37) pen = coloured(pen, code - 29);
    else if (code >= 90 && code <= 97) pen = coloured(pen, code - 89);
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) pen |= RAISED;
  }
  return pen;
}

function coloured(pen: Pen, colour: number): Pen {
  return (pen & ~COLOUR) | colour;
}

/** One of 256 colours, or of all: the nearest that the page has, and how many codes it took. */
function extended(codes: readonly number[]): [colour: number, length: number] {
  const [kind, first = 0, second = 0, third = 0] = codes;
  if (kind === 2) return [nearest(first, second, third), 4];
  if (first < 16) return [(first % 8) + 1, 2];
  if (first >= 232) return [first < 244 ? BLACK : WHITE, 2];
  const cube = first - 16;
  return [nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51), 2];
}

function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 40) return most < 128 ? BLACK : WHITE;
  const middle = (most + least) / 2;
  return 1 + (red > middle ? 1 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 4 : 0);
}
