/** The lines of one file, with comments below those that somebody has said something about. */
import { MessageSquarePlus } from "lucide-react";
import { type FocusEvent, type ReactNode, useCallback, useMemo, useState } from "react";
import {
  type ChangeData,
  Decoration,
  Diff,
  type FileData,
  type GutterOptions,
  getChangeKey,
  Hunk,
  markEdits,
  parseDiff,
  tokenize,
  type ViewType,
} from "react-diff-view";
import "react-diff-view/style/index.css";
import "./diff.css";
import { moveAmongRows } from "@/parts/rows";
import { t } from "@/texts/texts";
import { CommentBox } from "./CommentBox";
import { type Comment, type Commenting, placeText, sameLine } from "./comments";
import type { FilePatch } from "./patch";

const MARKED_LINES_MAX = 1_000; // of a file whose changes are shown letter by letter
const NONE: Readonly<Record<string, ReactNode>> = {};

type Props = { file: FilePatch; viewType: ViewType; commenting?: Commenting };

export function FileLines({ file, viewType, commenting }: Props) {
  const [asked, setAsked] = useState<string | null>(null);
  const parsed = useMemo(() => parsedOf(file.text), [file.text]);
  const hunks = useMemo(() => parsed?.hunks ?? [], [parsed]);
  const changes = useMemo(() => hunks.flatMap((hunk) => hunk.changes), [hunks]);
  const tokens = useMemo(() => {
    const lines = file.insertions + file.deletions;
    if (file.insertions === 0 || file.deletions === 0 || lines > MARKED_LINES_MAX) return null;
    return tokenize(hunks, { enhancers: [markEdits(hunks, { type: "block" })] });
  }, [file, hunks]);
  const widgets = useMemo(
    () => (commenting ? widgetsOf(file.path, changes, asked, setAsked, commenting) : NONE),
    [file.path, changes, asked, commenting],
  );

  const first = useMemo(() => {
    const change = changes.find((one) => one.type !== "normal") ?? changes[0];
    return change === undefined ? null : getChangeKey(change);
  }, [changes]);
  const mayComment = commenting !== undefined;
  const gutter = useCallback(
    ({ change, side, renderDefault }: GutterOptions): ReactNode => {
      const number = renderDefault();
      const place = placeOf(file.path, change);
      if (!mayComment || number === undefined || side !== place.side) return number;
      const key = getChangeKey(change);
      return (
        <button
          type="button"
          data-row
          tabIndex={key === first ? 0 : -1}
          onClick={() => setAsked(key)}
          aria-label={t.diff.comment(placeText(place.path, place.line, place.side))}
          className="group/line relative block w-full text-right"
        >
          <MessageSquarePlus
            size={14}
            aria-hidden
            className="absolute top-0.5 -left-1 hidden bg-surface text-accent group-hover/line:block group-focus-visible/line:block"
          />
          {number}
        </button>
      );
    },
    [file.path, first, mayComment],
  );

  if (parsed === null) return <p className="px-3 py-2 text-muted">{t.diff.unreadable}</p>;
  return (
    <div onKeyDown={moveAmongRows} onFocus={keepPlace}>
      <Diff
        viewType={viewType}
        diffType={parsed.type}
        hunks={hunks}
        tokens={tokens}
        widgets={widgets}
        renderGutter={gutter}
        optimizeSelection
      >
        {(shown) =>
          shown.flatMap((hunk) => {
            const key = `${hunk.oldStart} ${hunk.newStart}`;
            return [
              <Decoration key={`head ${key}`}>
                <span className="block truncate px-3 text-muted">{hunk.content}</span>
              </Decoration>,
              <Hunk key={key} hunk={hunk} />,
            ];
          })
        }
      </Diff>
    </div>
  );
}

/** Null: what git wrote is none that can be read. */
function parsedOf(text: string): FileData | null {
  try {
    return parseDiff(text)[0] ?? null;
  } catch {
    return null;
  }
}

/** Tab comes to one line of a file, that which one was at; from there one goes on by the arrows. */
function keepPlace(event: FocusEvent<HTMLElement>): void {
  const row = event.target.closest<HTMLElement>("[data-row]");
  if (row === null) return;
  for (const other of event.currentTarget.querySelectorAll<HTMLElement>('[data-row][tabindex="0"]'))
    other.tabIndex = -1;
  row.tabIndex = 0;
}

function placeOf(path: string, change: ChangeData): Omit<Comment, "text"> {
  if (change.type === "delete") return { path, line: change.lineNumber, side: "old" };
  return { path, line: change.type === "insert" ? change.lineNumber : change.newLineNumber, side: "new" };
}

function widgetsOf(
  path: string,
  changes: readonly ChangeData[],
  asked: string | null,
  ask: (key: string | null) => void,
  commenting: Commenting,
): Record<string, ReactNode> {
  const own = commenting.comments.filter((comment) => comment.path === path);
  const widgets: Record<string, ReactNode> = {};
  if (own.length === 0 && asked === null) return widgets;
  for (const change of changes) {
    const key = getChangeKey(change);
    const place = placeOf(path, change);
    const comment = own.find((one) => sameLine(one, place));
    if (comment === undefined && key !== asked) continue;
    const back = () => {
      ask(null);
      focusLine(placeText(place.path, place.line, place.side));
    };
    widgets[key] = (
      <CommentBox
        key={key}
        place={placeText(place.path, place.line, place.side)}
        text={comment?.text ?? ""}
        editing={key === asked}
        edit={() => ask(key)}
        put={(text) => {
          commenting.put({ ...place, text });
          back();
        }}
        leave={back}
      />
    );
  }
  return widgets;
}

/** Where one was before one wrote. */
function focusLine(place: string): void {
  const name = t.diff.comment(place);
  for (const row of document.querySelectorAll<HTMLElement>("[data-row]"))
    if (row.getAttribute("aria-label") === name) row.focus();
}
