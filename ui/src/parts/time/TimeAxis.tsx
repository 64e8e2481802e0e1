/** Ticks of a time axis, and the lines that go down from them. */
import { memo } from "react";
import { instant } from "@/texts/format";
import { percent, type Range, share, ticksOf, tickText } from "./scale";

const TICKS_MAX = 8;

type Props = { range: Range; zero: number };

/** Ticks are told as time after `zero`. */
export const TimeAxis = memo(function TimeAxis({ range, zero }: Props) {
  return (
    <div aria-hidden className="relative h-6 overflow-hidden text-xs text-muted tabular-nums">
      {ticksOf(range, zero, TICKS_MAX).map((ms) => {
        const at = share(range, zero + ms);
        return (
          <span
            key={ms}
            title={instant(zero + ms)}
            className="absolute top-1 whitespace-nowrap"
            style={at > 0.94 ? { right: 0 } : { left: percent(at), transform: at < 0.03 ? "none" : "translateX(-50%)" }}
          >
            {tickText(ms)}
          </span>
        );
      })}
    </div>
  );
});

export const TimeLines = memo(function TimeLines({ range, zero }: Props) {
  return (
    <div aria-hidden className="pointer-events-none absolute inset-0">
      {ticksOf(range, zero, TICKS_MAX).map((ms) => (
        <span key={ms} className="absolute inset-y-0 w-px bg-line" style={{ left: percent(share(range, zero + ms)) }} />
      ))}
    </div>
  );
});
