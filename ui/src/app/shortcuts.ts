/** Keys that work everywhere.  Those of lists stand with the lists. */
import { useEffect } from "react";
import { useNavigate } from "react-router";
import { isTyping } from "@/parts/rows";

const PLACES: Readonly<Record<string, string>> = { i: "/inbox", t: "/tasks", e: "/events", f: "/fleet" };
const LISTS: ReadonlySet<string> = new Set(["j", "k"]); // where nothing has the focus yet
const ROWS = "main [role=tree], main [data-row]";
const SECOND_MS = 1_500; // so long after `g`

/** `showList`: the list of all shortcuts is asked for. */
export function useShortcuts(showList: () => void): void {
  const navigate = useNavigate();
  useEffect(() => {
    let goneAt = 0;
    const hear = (event: KeyboardEvent) => {
      if (event.key === "Escape" && isTyping(event.target)) (event.target as HTMLElement).blur();
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      const place = PLACES[event.key];
      if (event.key === "g") goneAt = Date.now();
      else if (place !== undefined && Date.now() - goneAt < SECOND_MS) void navigate(place);
      else if (event.key === "?") showList();
      else if (event.key === "/" && focusFirst("main [data-search]")) event.preventDefault();
      else if (LISTS.has(event.key) && document.activeElement === document.body && focusFirst(ROWS))
        event.preventDefault();
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, [navigate, showList]);
}

function focusFirst(selector: string): boolean {
  const found = document.querySelector<HTMLElement>(selector);
  found?.focus();
  return found !== null;
}
