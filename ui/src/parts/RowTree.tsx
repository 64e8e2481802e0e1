/** Rows that scroll with the page, of which only those in sight are there; by keyboard they are gone through as a tree. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";

const OVERSCAN = 12;

type Props<R> = {
  label: string;
  rows: readonly R[];
  idOf: (row: R) => string;
  rowPx: number;
  draw: (row: R, index: number) => ReactNode;
  /** Enter. */
  onOpen: (row: R) => void;
  /** A click on the row; it is the current one then. */
  onPick?: (row: R) => void;
  /** 1 when absent. */
  levelOf?: (row: R) => number;
  /** Undefined: there is nothing below it. */
  unfolded?: (row: R) => boolean | undefined;
  onFold?: (row: R, unfold: boolean) => void;
  /** Told when another row becomes the current one. */
  onCurrent?: (row: R) => void;
  /** It is higher than the others. */
  tall?: (row: R) => boolean;
  /** Drawn behind all rows. */
  behind?: ReactNode;
};

export function RowTree<R>({
  label,
  rows,
  idOf,
  rowPx,
  draw,
  onOpen,
  onPick,
  levelOf,
  unfolded,
  onFold,
  onCurrent,
  tall,
  behind,
}: Props<R>) {
  const prefix = useId();
  const [current, setCurrent] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  // Without a list of what it hangs on: what stands above may have grown with any change.
  useLayoutEffect(() => {
    if (list.current !== null) setTop(Math.round(list.current.getBoundingClientRect().top + window.scrollY));
  });
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowPx,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => (rows[index] === undefined ? index : idOf(rows[index])),
  });
  const at = Math.max(
    rows.findIndex((row) => idOf(row) === current),
    0,
  );
  const row = rows[at];

  const become = (to: number) => {
    const next = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (next === undefined) return;
    setCurrent(idOf(next));
    onCurrent?.(next);
    virtual.scrollToIndex(rows.indexOf(next), { align: "auto" });
  };
  const level = (one: R | undefined) => (one === undefined ? 1 : (levelOf?.(one) ?? 1));
  const unfold = (one: R) => {
    const open = unfolded?.(one);
    if (open === true) become(at + 1);
    else if (open === false) onFold?.(one, true);
  };
  const foldBack = (one: R) => {
    if (unfolded?.(one)) onFold?.(one, false);
    else for (let up = at - 1; up >= 0; up -= 1) if (level(rows[up]) < level(one)) return become(up);
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget || row === undefined)
      return;
    const acts: Record<string, () => void> = {
      j: () => become(at + 1),
      ArrowDown: () => become(at + 1),
      k: () => become(at - 1),
      ArrowUp: () => become(at - 1),
      Home: () => become(0),
      End: () => become(rows.length - 1),
      l: () => unfold(row),
      ArrowRight: () => unfold(row),
      h: () => foldBack(row),
      ArrowLeft: () => foldBack(row),
      Enter: () => onOpen(row),
    };
    const act = acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  };

  return (
    <div
      ref={list}
      role="tree"
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={row === undefined ? undefined : domId(prefix, idOf(row))}
      onKeyDown={press}
      className="group relative"
      style={{ height: virtual.getTotalSize() }}
    >
      {behind === undefined ? null : (
        <div aria-hidden className="pointer-events-none absolute inset-0">
          {behind}
        </div>
      )}
      {virtual.getVirtualItems().map((item) => {
        const one = rows[item.index];
        if (one === undefined) return null;
        const id = idOf(one);
        const grown = tall?.(one) ?? false;
        return (
          <div
            key={item.key}
            id={domId(prefix, id)}
            data-index={item.index}
            ref={grown ? virtual.measureElement : undefined}
            role="treeitem"
            aria-level={level(one)}
            aria-expanded={unfolded?.(one)}
            aria-selected={one === row}
            onClick={
              onPick &&
              (() => {
                setCurrent(id);
                onCurrent?.(one);
                onPick(one);
              })
            }
            className="absolute inset-x-0 top-0 border-b border-line group-focus-visible:aria-selected:bg-accent-soft hover:bg-raised"
            style={{ transform: `translateY(${item.start - top}px)`, ...(grown ? {} : { height: rowPx }) }}
          >
            {draw(one, item.index)}
          </div>
        );
      })}
    </div>
  );
}

/** Without blanks, which part a list of ids. */
function domId(prefix: string, id: string): string {
  return prefix + encodeURIComponent(id);
}
