/** What somebody says about a line: to read, or to write. */
import { MessageSquare } from "lucide-react";
import { useState } from "react";
import { Button } from "@/parts/Button";
import { t } from "@/texts/texts";

type Props = {
  /** Where it stands. */
  place: string;
  text: string;
  editing: boolean;
  edit: () => void;
  /** Empty takes it away. */
  put: (text: string) => void;
  leave: () => void;
};

export function CommentBox({ place, text, editing, edit, put, leave }: Props) {
  return (
    <div className="max-w-[44rem] px-3 py-2 font-sans text-[14px] whitespace-normal">
      {editing ? (
        <Writing place={place} text={text} put={put} leave={leave} />
      ) : (
        <div className="flex gap-2 rounded-md border border-line bg-surface px-3 py-2">
          <MessageSquare size={14} aria-hidden className="mt-1 shrink-0 text-accent" />
          <p className="min-w-0 flex-1 break-words whitespace-pre-wrap">{text}</p>
          <Button look="quiet" onClick={edit} aria-label={`${t.diff.edit}: ${place}`}>
            {t.diff.edit}
          </Button>
          <Button look="quiet" onClick={() => put("")} aria-label={`${t.diff.remove}: ${place}`}>
            {t.diff.remove}
          </Button>
        </div>
      )}
    </div>
  );
}

function Writing({ place, text, put, leave }: Pick<Props, "place" | "text" | "put" | "leave">) {
  const [words, setWords] = useState(text);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        put(words);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") leave();
        else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) put(words);
        event.stopPropagation();
      }}
      className="flex flex-col gap-2 rounded-md border border-accent bg-surface p-2"
    >
      <textarea
        autoFocus
        rows={3}
        aria-label={t.diff.comment(place)}
        placeholder={t.diff.commentHint}
        value={words}
        onChange={(event) => setWords(event.target.value)}
        className="w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 max-sm:text-base"
      />
      <div className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate font-mono text-[0.93em] text-muted">{place}</span>
        <Button onClick={leave}>{t.parts.cancel}</Button>
        <Button type="submit" look="main" disabled={words.trim() === "" && text === ""}>
          {t.diff.put}
        </Button>
      </div>
    </form>
  );
}
