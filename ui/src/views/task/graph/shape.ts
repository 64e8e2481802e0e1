/** What the graph is drawn of: steps, and for many of a kind one node that stands for all of them. */
import type { Graph } from "@/api/documents";

export type GraphNode = {
  id: string;
  /** From 1. */
  stage: number;
  kind: string;
  /** The step that it is; null: it stands for `members` alone, which are alike. */
  step: string | null;
  /** Steps that are folded into it, in the plan's order. */
  members: readonly string[];
};

/** `edges`: [need, node]. */
export type Shape = {
  stages: readonly string[];
  nodes: readonly GraphNode[];
  edges: ReadonlyArray<readonly [string, string]>;
};

const ALIKE_MIN = 9; // so many that need the same and are needed by the same say less than their number

type GraphStep = Graph["steps"][number];

/** The same for graphs of the same shape, whatever the states of their steps. */
export function shapeKey(graph: Graph): string {
  const steps = graph.steps.map((step) => `${step.key}\t${step.kind}\t${step.stage}\t${step.owner ?? ""}`);
  return [...graph.stages, "", ...steps, "", ...graph.edges.map((edge) => edge.join("\t"))].join("\n");
}

export function shapeOf(graph: Graph): Shape {
  const home = homes(graph.steps);
  const members = new Map<string, string[]>();
  for (const { key } of graph.steps) {
    const owner = home.get(key) ?? key;
    if (owner !== key) push(members, owner, key);
  }
  const own = graph.steps.filter((step) => home.get(step.key) === step.key);
  const edges = joined(graph.edges as [string, string][], (key) => home.get(key));
  const alike = alikes(
    own.filter((step) => !members.has(step.key)),
    edges,
  );
  const nodes: GraphNode[] = [];
  for (const step of own) {
    const group = alike.get(step.key);
    if (group === undefined) {
      nodes.push({
        id: step.key,
        stage: step.stage,
        kind: step.kind,
        step: step.key,
        members: members.get(step.key) ?? [],
      });
    } else if (group[0] === step.key) {
      nodes.push({ id: step.key, stage: step.stage, kind: step.kind, step: null, members: group });
    }
  }
  return { stages: graph.stages, nodes, edges: joined(edges, (key) => alike.get(key)?.[0] ?? key) };
}

/** Of each step the one at the top of its owners: itself, if it belongs to none that is here. */
function homes(steps: readonly GraphStep[]): Map<string, string> {
  const owners = new Map(steps.map((step) => [step.key, step.owner]));
  const found = new Map<string, string>();
  for (const { key } of steps) {
    let top = key;
    for (let owner = owners.get(top); owner != null && owners.has(owner) && owner !== key; owner = owners.get(top))
      top = owner;
    found.set(key, top);
  }
  return found;
}

/** By step, the steps that it is folded together with. */
function alikes(steps: readonly GraphStep[], edges: ReadonlyArray<readonly [string, string]>): Map<string, string[]> {
  const needs = new Map<string, string[]>();
  const dependents = new Map<string, string[]>();
  for (const [need, step] of edges) {
    push(needs, step, need);
    push(dependents, need, step);
  }
  const groups = new Map<string, string[]>();
  for (const { key, kind, stage } of steps) {
    const around = [needs.get(key)?.sort() ?? [], dependents.get(key)?.sort() ?? []];
    push(groups, JSON.stringify([stage, kind, ...around]), key);
  }
  const found = new Map<string, string[]>();
  for (const group of groups.values()) if (group.length >= ALIKE_MIN) for (const key of group) found.set(key, group);
  return found;
}

/** Edges between other ends: each once, and none that leads back to where it came from. */
function joined(
  edges: ReadonlyArray<readonly [string, string]>,
  end: (key: string) => string | undefined,
): [string, string][] {
  const found = new Map<string, [string, string]>();
  for (const [need, step] of edges) {
    const [from, to] = [end(need), end(step)];
    if (from !== undefined && to !== undefined && from !== to) found.set(`${from}\n${to}`, [from, to]);
  }
  return [...found.values()];
}

function push(map: Map<string, string[]>, key: string, value: string): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}
