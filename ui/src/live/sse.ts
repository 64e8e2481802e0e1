/** Server-sent events, out of text as it comes. */

/** `data` null: it moves the mark and tells nothing.  `event` "message" where the server names none. */
export type Message = { id: string | null; event: string; data: string | null };

/** Feeds on pieces of a stream, however they are cut; gives the messages that are whole. */
export function messageReader(): (piece: string) => Message[] {
  let rest = "";
  let id: string | null = null;
  let event = "";
  let data: string[] = [];

  function field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
  }

  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    const found: Message[] = [];
    for (const line of lines) {
      if (line !== "") {
        if (!line.startsWith(":")) field(line);
        continue;
      }
      if (data.length > 0) found.push({ id, event: event || "message", data: data.join("\n") });
      else if (id !== null) found.push({ id, event: "", data: null });
      id = null;
      event = "";
      data = [];
    }
    return found;
  };
}
