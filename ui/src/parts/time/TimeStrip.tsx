/** The whole of a time axis, small, and the range of it that is looked at: drawn with the pointer, moved with the keys. */
import { Maximize2, ZoomIn, ZoomOut } from "lucide-react";
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from "react";
import { Button } from "@/parts/Button";
import { duration } from "@/texts/format";
import { t } from "@/texts/texts";
import { percent, type Range, share, within, zoomed } from "./scale";

const ZOOM = 2;
const DRAWN_MIN = 0.005; // of the whole: less is a click
const MOVE = 0.1; // of what is shown

type Props = {
  whole: Range;
  /** What is looked at. */
  shown: Range;
  /** Null: all of it again, and what comes. */
  onShow: (range: Range | null) => void;
  children: ReactNode;
};

export function TimeStrip({ whole, shown, onShow, children }: Props) {
  const first = useRef(0);
  const [drawn, setDrawn] = useState<Range | null>(null);
  const all = shown.from <= whole.from && shown.to >= whole.to;
  const marked = drawn ?? shown;
  const from = share(whole, marked.from);
  const to = share(whole, marked.to);

  const at = (event: PointerEvent): number => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return whole.from + Math.min(Math.max((event.clientX - left) / width, 0), 1) * (whole.to - whole.from);
  };
  const begin = (event: PointerEvent) => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const here = at(event);
    first.current = here;
    setDrawn({ from: here, to: here });
  };
  const draw = (event: PointerEvent) => {
    if (drawn === null) return;
    const here = at(event);
    setDrawn({ from: Math.min(first.current, here), to: Math.max(first.current, here) });
  };
  const end = () => {
    if (drawn !== null && drawn.to - drawn.from > DRAWN_MIN * (whole.to - whole.from)) onShow(within(whole, drawn));
    setDrawn(null);
  };
  const press = (event: KeyboardEvent) => {
    const length = shown.to - shown.from;
    const moved = (by: number) => within(whole, { from: shown.from + by * length, to: shown.to + by * length });
    const acts: Record<string, () => Range | null> = {
      ArrowLeft: () => moved(-MOVE),
      ArrowRight: () => moved(MOVE),
      Home: () => within(whole, { from: whole.from, to: whole.from + length }),
      End: () => within(whole, { from: whole.to - length, to: whole.to }),
      "+": () => zoomed(whole, shown, 1 / ZOOM),
      "=": () => zoomed(whole, shown, 1 / ZOOM),
      "-": () => zoomed(whole, shown, ZOOM),
      "0": () => null,
      Escape: () => null,
    };
    const act = acts[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onShow(act());
  };

  return (
    <div className="flex items-center gap-2">
      <div
        role="slider"
        tabIndex={0}
        aria-label={t.timeline.range}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share(whole, shown.from) * 100)}
        aria-valuetext={
          all ? t.timeline.all : t.timeline.shown(duration(shown.from - whole.from), duration(shown.to - whole.from))
        }
        title={t.timeline.rangeHint}
        onPointerDown={begin}
        onPointerMove={draw}
        onPointerUp={end}
        onPointerCancel={() => setDrawn(null)}
        onDoubleClick={() => onShow(null)}
        onKeyDown={press}
        className="relative h-8 min-w-0 flex-1 cursor-crosshair touch-none overflow-hidden rounded border border-line bg-surface select-none"
      >
        {children}
        {all && drawn === null ? null : (
          <>
            <span className="absolute inset-y-0 left-0 bg-ground/70" style={{ width: percent(from) }} />
            <span className="absolute inset-y-0 right-0 bg-ground/70" style={{ width: percent(1 - to) }} />
            <span
              className="absolute inset-y-0 border-x-2 border-accent"
              style={{ left: percent(from), width: percent(Math.max(to - from, 0.002)) }}
            />
          </>
        )}
      </div>
      <div className="flex">
        <ZoomButton
          name={t.timeline.zoomIn}
          icon={<ZoomIn size={15} aria-hidden />}
          onClick={() => onShow(zoomed(whole, shown, 1 / ZOOM))}
        />
        <ZoomButton
          name={t.timeline.zoomOut}
          icon={<ZoomOut size={15} aria-hidden />}
          disabled={all}
          onClick={() => onShow(zoomed(whole, shown, ZOOM))}
        />
        <ZoomButton
          name={t.timeline.all}
          icon={<Maximize2 size={15} aria-hidden />}
          disabled={all}
          onClick={() => onShow(null)}
        />
      </div>
    </div>
  );
}

type ZoomProps = { name: string; icon: ReactNode; disabled?: boolean; onClick: () => void };

function ZoomButton({ name, icon, disabled, onClick }: ZoomProps) {
  return (
    <Button
      look="quiet"
      className="px-1.5!"
      aria-label={name}
      title={name}
      disabled={disabled}
      onClick={onClick}
      icon={icon}
    />
  );
}
