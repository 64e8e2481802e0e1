/** Through the graph by arrow keys: to the node that is nearest in that direction. */
import type { Box } from "./layout";

export type Direction = "left" | "right" | "up" | "down";

export const KEYS: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
  h: "left",
  l: "right",
  k: "up",
  j: "down",
};

const ASIDE = 2.5; // so much worse is a node that stands aside than one straight ahead

/** Null: there is none. */
export function nearest<N extends Box & { id: string }>(nodes: readonly N[], from: N, to: Direction): N | null {
  const centre = (node: Box) => ({ x: node.x + node.width / 2, y: node.y + node.height / 2 });
  const here = centre(from);
  let best: N | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const node of nodes) {
    const { x, y } = centre(node);
    const [ahead, aside] = to === "left" || to === "right" ? [x - here.x, y - here.y] : [y - here.y, x - here.x];
    const on = to === "left" || to === "up" ? -ahead : ahead;
    if (node.id === from.id || on <= 1) continue;
    const far = on + ASIDE * Math.abs(aside);
    if (far < least) [best, least] = [node, far];
  }
  return best;
}
