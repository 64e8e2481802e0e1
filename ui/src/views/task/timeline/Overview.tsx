/** A task's whole time as one strip. */
import { percent, type Range, share } from "@/parts/time/scale";
import { LOOKS } from "./looks";
import { type Moment, visible } from "./partition";

const PIECES = 600; // as many as can be told apart

export function Overview({ moments, whole }: { moments: readonly Moment[]; whole: Range }) {
  return (
    <>
      {visible(moments, (whole.to - whole.from) / PIECES).map((moment) => {
        const left = share(whole, moment.from);
        const high =
          moment.kind === "working" ? "inset-y-1.5" : moment.kind === "queued" ? "top-[15px] h-0.5" : "inset-y-2.5";
        return (
          <span
            key={moment.from}
            aria-hidden
            className={`absolute min-w-px ${high} ${LOOKS[moment.kind]}`}
            style={{ left: percent(left), width: percent(share(whole, moment.to) - left) }}
          />
        );
      })}
    </>
  );
}
