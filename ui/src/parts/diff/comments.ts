/** Comments on lines of a diff, and as what they travel: a decision takes a text. */

/** `side`: of the line, since a line that was taken away has a number in the old file only. */
export type Comment = { path: string; line: number; side: "new" | "old"; text: string };
/** `put`: in the place of what was said about that line; an empty text takes it away. */
export type Commenting = { comments: readonly Comment[]; put: (comment: Comment) => void };

export function sameLine(one: Omit<Comment, "text">, other: Omit<Comment, "text">): boolean {
  return one.path === other.path && one.line === other.line && one.side === other.side;
}

/** In the order of their places.  An empty text takes the comment away. */
export function withComment(comments: readonly Comment[], comment: Comment): Comment[] {
  const others = comments.filter((one) => !sameLine(one, comment));
  const all = comment.text.trim() === "" ? others : [...others, comment];
  return all.sort((a, b) =>
    a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line || (a.side < b.side ? 1 : -1),
  );
}

/** `path:line: text`, one after another; a line that was taken away bears a minus, further lines of a text are indented. */
export function commentsText(comments: readonly Comment[]): string {
  return comments
    .map(({ path, line, side, text }) => `${placeText(path, line, side)}: ${text.trim().replace(/\n/g, "\n  ")}`)
    .join("\n");
}

export function placeText(path: string, line: number, side: Comment["side"]): string {
  return `${path}:${side === "old" ? "-" : ""}${line}`;
}

/** What is said, then what is said about lines. */
export function decisionText(said: string, comments: readonly Comment[]): string {
  return [said.trim(), commentsText(comments)].filter((part) => part !== "").join("\n\n");
}
