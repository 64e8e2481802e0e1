/** Short notices: what was done is said once, aloud for those who listen to the page. */
import { useSyncExternalStore } from "react";

const LASTS_MS = 5_000;
type Notice = { id: number; text: string };

let notices: readonly Notice[] = [];
let next = 1;
const listeners = new Set<() => void>();

function become(changed: readonly Notice[]): void {
  notices = changed;
  for (const listener of listeners) listener();
}

export function notify(text: string): void {
  const id = next++;
  become([...notices, { id, text }]);
  setTimeout(() => become(notices.filter((notice) => notice.id !== id)), LASTS_MS);
}

export function useNotices(): readonly Notice[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
}
