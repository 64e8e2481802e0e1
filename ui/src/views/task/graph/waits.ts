/** What keeps a node from going on. */
import { OVER } from "@/api/documents";
import type { GraphNode, Shape } from "./shape";

/** `open`: nodes that are not over and stand before it, however far; `all`: with itself. */
export type Waits = { open: ReadonlySet<string>; all: ReadonlySet<string> };

/** Null: nothing stands before it.  A node without an open need that is blocked waits for the stages before its own. */
export function waitsOf(shape: Shape, id: string, stateOf: (node: GraphNode) => readonly string[]): Waits | null {
  const nodes = new Map(shape.nodes.map((node) => [node.id, node]));
  const node = nodes.get(id);
  if (node === undefined || !stateOf(node).some((state) => state === "blocked")) return null;
  const needs = new Map<string, string[]>();
  for (const [need, dependent] of shape.edges) {
    const known = needs.get(dependent);
    if (known) known.push(need);
    else needs.set(dependent, [need]);
  }
  const open = new Set<string>();
  const isOpen = (one: GraphNode | undefined) => one !== undefined && stateOf(one).some((state) => !OVER.has(state));
  const next = [id];
  for (let at = next.pop(); at !== undefined; at = next.pop()) {
    const found = (needs.get(at) ?? []).filter((need) => !open.has(need) && isOpen(nodes.get(need)));
    const before = found.length > 0 || (needs.get(at) ?? []).some((need) => open.has(need));
    const stage = nodes.get(at)?.stage ?? 1;
    const blocked = stateOf(nodes.get(at) ?? node).includes("blocked");
    if (!before && blocked) {
      for (const one of shape.nodes)
        if (one.stage === stage - 1 && isOpen(one) && !open.has(one.id)) found.push(one.id);
    }
    for (const one of found) {
      open.add(one);
      next.push(one);
    }
  }
  return open.size === 0 ? null : { open, all: new Set([...open, id]) };
}
