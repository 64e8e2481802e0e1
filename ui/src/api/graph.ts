/** What a step keeps others from: its dependents, and what comes after its stage. */
import { type Graph, OVER } from "./documents";

/** How many steps that are not over cannot go on before it. */
export function blockedBy(graph: Graph, step: string): number {
  const own = graph.steps.find((one) => one.key === step);
  if (own === undefined) return 0;
  const dependents = new Map<string, string[]>();
  for (const [need, dependent] of graph.edges as [string, string][]) {
    const others = dependents.get(need);
    if (others) others.push(dependent);
    else dependents.set(need, [dependent]);
  }
  const found = new Set<string>();
  const next = [step];
  for (let key = next.pop(); key !== undefined; key = next.pop()) {
    for (const dependent of dependents.get(key) ?? []) {
      if (found.has(dependent)) continue;
      found.add(dependent);
      next.push(dependent);
    }
  }
  return graph.steps.filter(
    (one) => one.key !== step && !OVER.has(one.state) && (found.has(one.key) || one.stage > own.stage),
  ).length;
}
