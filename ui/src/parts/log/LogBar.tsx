/** What can be done with output: search, follow, wrap, copy, keep. */
import { ArrowDown, ArrowUp, ChevronsDown, Copy, Download, Search, WrapText } from "lucide-react";
import type { ReactNode } from "react";
import { notify } from "@/parts/notices";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";

type Props = {
  words: string;
  setWords: (words: string) => void;
  /** Null: nothing is looked for.  `place` counts from 1; 0: none is looked at yet. */
  found: { place: number; all: number } | null;
  go: (by: 1 | -1) => void;
  wrap: boolean;
  setWrap: (wrap: boolean) => void;
  /** Null: nothing comes any more. */
  following: boolean | null;
  setFollowing: (following: boolean) => void;
  text: () => string;
  name: string;
  main: boolean;
};

export function LogBar(props: Props) {
  const { words, setWords, found, go, wrap, setWrap, following, setFollowing, text, name, main } = props;
  const copy = () => void navigator.clipboard?.writeText(text()).then(() => notify(t.parts.copied));
  return (
    <div className="flex flex-wrap items-center gap-1 border-b border-line px-2 py-1.5">
      <div className="relative min-w-40 flex-1 sm:max-w-72">
        <Search size={14} aria-hidden className="absolute top-1/2 left-2 -translate-y-1/2 text-muted" />
        <input
          type="search"
          value={words}
          data-search={main ? "" : undefined}
          aria-label={t.log.search}
          placeholder={t.log.search}
          onChange={(event) => setWords(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
            else if (event.key === "Escape") event.currentTarget.blur();
          }}
          className="w-full rounded-md border border-line bg-surface py-1 pr-2 pl-7 max-sm:text-base"
        />
      </div>
      <span role="status" className="min-w-16 px-1 text-muted tabular-nums">
        {found === null
          ? ""
          : found.all === 0
            ? t.log.none
            : found.place === 0
              ? t.log.found(found.all)
              : `${count(found.place)} / ${count(found.all)}`}
      </span>
      <Tool
        label={t.log.previous}
        icon={<ArrowUp size={16} aria-hidden />}
        onClick={() => go(-1)}
        disabled={!found?.all}
      />
      <Tool
        label={t.log.next}
        icon={<ArrowDown size={16} aria-hidden />}
        onClick={() => go(1)}
        disabled={!found?.all}
      />
      <span className="ml-auto flex items-center gap-1">
        {following === null ? null : (
          <Tool
            label={t.log.follow}
            icon={<ChevronsDown size={16} aria-hidden />}
            word={t.log.follow}
            pressed={following}
            onClick={() => setFollowing(!following)}
          />
        )}
        <Tool
          label={t.log.wrap}
          icon={<WrapText size={16} aria-hidden />}
          pressed={wrap}
          onClick={() => setWrap(!wrap)}
        />
        <Tool label={t.log.copy} icon={<Copy size={16} aria-hidden />} onClick={copy} />
        <Tool label={t.log.keep} icon={<Download size={16} aria-hidden />} onClick={() => keep(name, text())} />
      </span>
    </div>
  );
}

type ToolProps = {
  label: string;
  icon: ReactNode;
  word?: string;
  pressed?: boolean;
  disabled?: boolean;
  onClick: () => void;
};

function Tool({ label, icon, word, pressed, disabled, onClick }: ToolProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
      className="inline-flex min-h-8 min-w-8 items-center justify-center gap-1.5 rounded-md px-1.5 text-muted hover:bg-raised hover:text-ink disabled:opacity-40 aria-pressed:bg-accent-soft aria-pressed:text-accent pointer-coarse:min-h-10 pointer-coarse:min-w-10"
    >
      {icon}
      {word}
    </button>
  );
}

/** As a file of the browser's. */
function keep(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
