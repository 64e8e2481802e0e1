/** A page that was left open while the server has got another one: parts of it are not there any more.
 *
 * It is loaded anew only where somebody wanted such a part, and only when the server really has another page, so that
 * it is never done twice for the same one.
 */
const RELOADED = "longtask.reloaded";
const AGAIN_MS = 30_000; // servers of two versions behind one address

const lacking = new WeakSet<object>();

export function notePartsThatLack(): void {
  addEventListener("vite:preloadError", (event) => lacking.add((event as Event & { payload: Error }).payload));
}

/** The error is that a part could not be loaded. */
export function isLacking(error: unknown): boolean {
  return typeof error === "object" && error !== null && lacking.has(error);
}

export async function reloadIfNewer(reload = () => location.reload()): Promise<void> {
  const last = Number(sessionStorage.getItem(RELOADED));
  if (Date.now() - last < AGAIN_MS || !(await serverHasAnother())) return;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  reload();
}

async function serverHasAnother(): Promise<boolean> {
  const own = document.querySelector('script[type="module"][src]')?.getAttribute("src");
  const answer = await fetch("/", { cache: "no-store" }).catch(() => null);
  if (!own || answer === null || !answer.ok) return false;
  const text = await answer.text();
  return text.includes('type="module"') && !text.includes(own);
}
