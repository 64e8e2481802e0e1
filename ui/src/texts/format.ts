/** Times, sizes and amounts, as the command line writes them. */

/** `whole`: no tenths, which flicker. */
export function duration(ms: number, whole = false): string {
  const seconds = Math.max(ms, 0) / 1000;
  if (seconds < 9.95 && !whole) return `${seconds.toFixed(1)}s`;
  const all = whole ? Math.floor(seconds) : Math.round(seconds);
  const days = Math.floor(all / 86_400);
  const hours = Math.floor((all % 86_400) / 3_600);
  const minutes = Math.floor((all % 3_600) / 60);
  if (days > 0) return `${days}d${hours}h`;
  if (hours > 0) return `${hours}h${two(minutes)}m`;
  return minutes > 0 ? `${minutes}m${two(all % 60)}s` : `${all}s`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

/** Of micro-dollars. */
export function money(micros: number): string {
  return `${(micros / 1e6).toFixed(2)} USD`;
}

export function bytes(n: number): string {
  if (n < 1_000) return `${n} B`;
  const units = ["kB", "MB", "GB"] as const;
  let size = n / 1_000;
  let unit = 0;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** In the reader's own time zone. */
export function instant(at: number): string {
  const date = new Date(at);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(at)}`;
}

export function clock(at: number): string {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** One line: what a text says first. */
export function firstLine(text: string): string {
  return text.trim().split("\n", 1)[0] ?? "";
}

/** Of a reason that is a head and a list of problems, the list. */
export function problemsIn(reason: string | null): string[] {
  const [head = "", ...rest] = (reason ?? "").split("\n").filter((line) => line.trim() !== "");
  const isList = head.trimEnd().endsWith(":") && !/^(exit code|signal) /.test(head);
  return isList ? rest.map((line) => line.trim()) : [];
}

/** Of a failure: how it ended, and the last that was said. Of a list of problems: the first, and how many more. */
export function gist(reason: string | null): string {
  const lines = (reason ?? "").split("\n").filter((line) => line.trim() !== "");
  const first = lines[0];
  if (first === undefined) return "";
  const problems = problemsIn(reason);
  if (problems.length > 0) {
    return `${first.trim()} ${problems[0] ?? ""}${problems.length > 1 ? ` (and ${problems.length - 1} more)` : ""}`;
  }
  const how = first.split(": ", 1)[0] ?? "";
  if (lines.length === 1 || !first.includes(": ") || !/^(exit code|signal) /.test(how)) return first.trim();
  return `${how}: ${(lines.at(-1) ?? "").replace(/^[ =]+|[ =]+$/g, "")}`;
}
