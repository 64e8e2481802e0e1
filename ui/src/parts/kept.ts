/** A text that somebody has begun: it outlives a closed dialog and a reloaded page, as long as the tab. */
import { useCallback, useState } from "react";

/** As `useState`; what is set is kept at once, also when what showed it goes with it. */
export function useKept(name: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => kept(name));
  const set = useCallback(
    (now: string) => {
      keep(name, now);
      setText(now);
    },
    [name],
  );
  return [text, set];
}

function kept(name: string): string {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function keep(name: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch {
    // full, or not allowed: then it is lost with what showed it
  }
}
