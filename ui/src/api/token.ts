/** The token that a server asks for when it is not on this machine alone; kept in this browser until one signs out. */
const PLACE = "longtask.token";
const listeners = new Set<() => void>();

let held: string | null = read();

function read(): string | null {
  try {
    return localStorage.getItem(PLACE);
  } catch {
    return null;
  }
}

export function heldToken(): string | null {
  return held;
}

export function holdToken(token: string | null): void {
  held = token;
  try {
    if (token === null) localStorage.removeItem(PLACE);
    else localStorage.setItem(PLACE, token);
  } catch {
    // storage is refused: it lasts as long as this page
  }
  for (const listener of listeners) listener();
}

export function onToken(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
