/** Whether what is shown is what is: a word in the navigation, a banner when it is not. */
import { CloudOff } from "lucide-react";
import { useEffect, useState } from "react";
import { useLiveState, useLook } from "@/live/Live";
import { Button } from "@/parts/Button";
import { useNow } from "@/parts/now";
import { duration } from "@/texts/format";
import { t } from "@/texts/texts";

const PATIENCE_MS = 2_000; // a server that is started again comes back within it, as a rule

export function StaleBanner() {
  const state = useLiveState();
  return (
    <div role="status" aria-live="polite">
      {state.word === "lost" ? <Lost since={state.since} /> : null}
    </div>
  );
}

function Lost({ since }: { since: number }) {
  const now = useNow();
  const look = useLook();
  if (now - since < PATIENCE_MS) return null;
  return (
    <div className="flex items-center gap-3 border-b border-wait bg-wait-soft px-4 py-1.5">
      <CloudOff size={16} aria-hidden className="shrink-0 text-wait" />
      <p className="flex-1">{t.live.lost(duration(now - since, true))}</p>
      <Button onClick={look}>{t.live.look}</Button>
    </div>
  );
}

export function LiveMark() {
  const { word } = useLiveState();
  const [wasLost, setWasLost] = useState(false);
  useEffect(() => {
    if (word === "lost") setWasLost(true);
  }, [word]);
  const live = word === "live";
  return (
    <span className={`inline-flex items-center gap-1.5 ${live ? "text-ok" : "text-wait"}`}>
      <svg viewBox="0 0 10 10" width="8" height="8" aria-hidden>
        {live ? (
          <circle cx="5" cy="5" r="5" fill="currentColor" />
        ) : (
          <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" strokeWidth="2" />
        )}
      </svg>
      <span>{live ? t.live.live : t.live.connecting}</span>
      <span role="status" className="sr-only">
        {live && wasLost ? t.live.back : ""}
      </span>
    </span>
  );
}
