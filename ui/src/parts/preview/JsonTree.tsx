/** A JSON document as a tree that unfolds: what is folded is not there. */
import { ChevronRight } from "lucide-react";
import { memo, useState } from "react";
import { Button } from "@/parts/Button";
import { count } from "@/texts/format";
import { t } from "@/texts/texts";

const UNFOLDED_LEVELS = 2;
const UNFOLDED_MAX = 50; // a longer list is folded at first
const SHOWN = 100; // so many more with each click
const TEXT_MAX = 500;

type Props = { value: unknown; name?: string; level?: number };

export const JsonTree = memo(function JsonTree({ value, name, level = 0 }: Props) {
  if (typeof value !== "object" || value === null) {
    return (
      <div className="pl-5">
        <Name name={name} />
        <Scalar value={value} />
      </div>
    );
  }
  return <Branch value={value} name={name} level={level} />;
});

function Branch({ value, name, level }: { value: object; name: string | undefined; level: number }) {
  const listed = Array.isArray(value);
  const entries = Object.entries(value);
  const [open, setOpen] = useState(level < UNFOLDED_LEVELS && entries.length <= UNFOLDED_MAX);
  const [shown, setShown] = useState(SHOWN);
  const size = listed ? t.preview.items(entries.length) : t.preview.keys(entries.length);
  return (
    <div>
      <button
        type="button"
        aria-expanded={open}
        disabled={entries.length === 0}
        onClick={() => setOpen(!open)}
        className="inline-flex items-center gap-1 rounded text-left"
      >
        <ChevronRight
          size={16}
          aria-hidden
          className={`text-muted ${open ? "rotate-90" : ""} ${entries.length === 0 ? "invisible" : ""}`}
        />
        <span>
          <Name name={name} />
          <span className="text-muted">
            {listed ? "[" : "{"}
            {open ? "" : `${size}${listed ? "]" : "}"}`}
          </span>
        </span>
      </button>
      {open ? (
        <>
          <div className="ml-[7px] border-l border-line pl-2">
            {entries.slice(0, shown).map(([key, one]) => (
              <JsonTree key={key} value={one} name={key} level={level + 1} />
            ))}
            {entries.length > shown ? (
              <Button look="quiet" onClick={() => setShown(shown + SHOWN)}>
                {t.parts.more} ({count(entries.length - shown)})
              </Button>
            ) : null}
          </div>
          <div className="pl-5 text-muted">{listed ? "]" : "}"}</div>
        </>
      ) : null}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : <span className="text-accent">{name}: </span>;
}

const INKS: Readonly<Record<string, string>> = { string: "text-ok", number: "text-run", boolean: "text-wait" };

function Scalar({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  const text = JSON.stringify(value);
  const cut = !whole && text.length > TEXT_MAX;
  return (
    <span className={`break-all whitespace-pre-wrap ${INKS[typeof value] ?? "text-muted"}`}>
      {cut ? `${text.slice(0, TEXT_MAX)}…` : text}
      {cut ? (
        <Button look="quiet" onClick={() => setWhole(true)}>
          {t.parts.more}
        </Button>
      ) : null}
    </span>
  );
}
