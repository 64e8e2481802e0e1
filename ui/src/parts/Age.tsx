/** Times that go on. */
import { duration, instant } from "@/texts/format";
import { useNow } from "./now";

/** How long ago an instant was, counting on; the instant itself stands in its title. */
export function Age({ at }: { at: number }) {
  const now = useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={instant(at)} className="tabular-nums">
      {duration(now - at, true)}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Took({ from, to }: { from: number; to: number | null }) {
  return to === null ? (
    <Age at={from} />
  ) : (
    <span className="tabular-nums" title={`${instant(from)} – ${instant(to)}`}>
      {duration(to - from)}
    </span>
  );
}

/** How long until an instant; "0s" once it has passed. */
export function Left({ until }: { until: number }) {
  const now = useNow();
  return (
    <time dateTime={new Date(until).toISOString()} title={instant(until)} className="tabular-nums">
      {duration(until - now, true)}
    </time>
  );
}
