/** Output to read: only the lines in sight are there, whatever their number. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { t } from "@/texts/texts";
import { LogBar } from "./LogBar";
import { LogLine } from "./LogLine";
import { type Line, textOf } from "./lines";
import { find, type Found, NOTHING } from "./search";

const LINE_PX = 18;
const OVERSCAN = 15;

type Props = {
  /** What wrote it, for those who do not see where it stands. */
  label: string;
  /** Of the file that it is kept as. */
  name: string;
  lines: readonly Line[];
  version: number;
  ended: boolean;
  /** It is written now, and one looks at its end. */
  live: boolean;
  /** A class of its height. */
  height?: string;
  /** The only one of the view: `/` looks in it. */
  main?: boolean;
};

export function Log({
  label,
  name,
  lines,
  version,
  ended,
  live,
  height = "h-[max(20rem,calc(100dvh-17rem))]",
  main = true,
}: Props) {
  const [words, setWords] = useState("");
  const [wrap, setWrap] = useState(false);
  const [following, setFollowing] = useState(live);
  const [place, setPlace] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  const wanted = useDeferredValue(words);
  const found = useFound(lines, version, wanted);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
  });
  const items = virtual.getVirtualItems();
  const total = virtual.getTotalSize();
  const digits = String(lines.length).length;
  const current = found.at[place];

  useLayoutEffect(() => {
    if (following && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [following, version, total]);
  useLayoutEffect(() => virtual.measure(), [virtual, wrap]);
  useEffect(() => setPlace(-1), [wanted]);

  const scrolled = () => {
    const element = box.current;
    if (element === null) return;
    const left = element.scrollHeight - element.clientHeight - element.scrollTop;
    if (element.scrollTop < lastTop.current - 1 && left > LINE_PX) setFollowing(false);
    else if (left < 2 && !ended) setFollowing(true);
    lastTop.current = element.scrollTop;
  };

  const go = (by: 1 | -1) => {
    if (found.at.length === 0) return;
    const first = items.find((item) => item.start >= lastTop.current)?.index ?? 0;
    const next = place < 0 ? nearest(found, first, by) : (place + by + found.at.length) % found.at.length;
    setPlace(next);
    setFollowing(false);
    virtual.scrollToIndex(found.at[next] ?? 0, { align: "center" });
  };

  return (
    <section aria-label={label} className="flex min-w-0 flex-col rounded-lg border border-line bg-surface">
      <LogBar
        words={words}
        setWords={setWords}
        found={wanted === "" ? null : { place: place + 1, all: found.at.length }}
        go={go}
        wrap={wrap}
        setWrap={setWrap}
        following={ended ? null : following}
        setFollowing={setFollowing}
        text={() => textOf(lines, t.log.gap)}
        name={name}
        main={main}
      />
      <div
        ref={box}
        role="group"
        aria-label={t.log.lines(lines.length)}
        tabIndex={0}
        onScroll={scrolled}
        className={`overflow-auto overscroll-contain rounded-b-lg font-mono text-[12px] leading-[18px] ${height}`}
      >
        {lines.length === 0 ? (
          <p className="px-3 py-2 font-sans text-muted">{ended ? t.log.nothing : t.log.nothingYet}</p>
        ) : null}
        <div style={{ height: total }} className="relative">
          <div
            className={`absolute top-0 left-0 ${wrap ? "w-full" : "w-max min-w-full"}`}
            style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}
          >
            {items.map((item) => {
              const line = lines[item.index];
              if (line === undefined) return null;
              return (
                <div key={item.key} data-index={item.index} ref={wrap ? virtual.measureElement : undefined}>
                  <LogLine
                    line={line}
                    number={item.index + 1}
                    digits={digits}
                    words={wanted}
                    current={item.index === current}
                    wrap={wrap}
                  />
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </section>
  );
}

/** What was found before is kept: lines come all the time. */
function useFound(lines: readonly Line[], version: number, words: string): Found {
  const kept = useRef<{ lines: readonly Line[]; found: Found }>({ lines, found: NOTHING });
  return useMemo(() => {
    const before = kept.current.lines === lines ? kept.current.found : NOTHING;
    const found = find(lines, words, before);
    kept.current = { lines, found };
    return found;
    // `version` tells that the lines, which grow in place, are others
  }, [lines, version, words]);
}

/** From where one looks, onwards or back. */
function nearest(found: Found, line: number, by: 1 | -1): number {
  const after = found.at.findIndex((index) => index >= line);
  if (by === 1) return after < 0 ? 0 : after;
  return after <= 0 ? found.at.length - 1 : after - 1;
}
