/** Which answers take a text: whoever is sent back to work must be told why. */
import type { Approval } from "@/api/documents";

const SENT_BACK: ReadonlySet<string> = new Set(["approval", "plan"]);

export function needsText(approval: Approval, answer: string): boolean {
  return answer === "respond" || (answer === "reject" && SENT_BACK.has(approval.kind));
}
