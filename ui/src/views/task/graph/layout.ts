/** Where the nodes stand: stages from left to right, and inside a stage what needs something right of what it needs. */
import { graphlib, layout as dagre } from "@dagrejs/dagre";
import type { GraphNode, Shape } from "./shape";

export type Box = { x: number; y: number; width: number; height: number };
export type Layout = {
  nodes: ReadonlyArray<GraphNode & Box>;
  stages: ReadonlyArray<Box & { name: string; number: number }>;
  edges: Shape["edges"];
};

export const NODE_WIDTH = 200;
export const STEP_HEIGHT = 46;
export const FOLD_HEIGHT = 68;
const STAGE_TOP = 36; // its name
const STAGE_PAD = 16;
const STAGE_GAP = 48;
const MANY = 300; // the best order of ranks takes too long for more

/** Pure, and slow for a thousand nodes: it runs beside the page. */
export function layOut({ stages, nodes, edges }: Shape): Layout {
  const names = stages.length > 0 ? stages : [""];
  const placed: (GraphNode & Box)[] = [];
  const boxes: (Box & { name: string; number: number })[] = [];
  let left = 0;
  names.forEach((name, index) => {
    const own = nodes.filter((node) => node.stage === index + 1);
    if (own.length === 0) return;
    const inner = layStage(own, edges);
    const width = Math.max(...inner.map((node) => node.x + node.width));
    const height = Math.max(...inner.map((node) => node.y + node.height));
    for (const node of inner) placed.push({ ...node, x: left + STAGE_PAD + node.x, y: STAGE_TOP + node.y });
    boxes.push({
      name,
      number: index + 1,
      x: left,
      y: 0,
      width: width + 2 * STAGE_PAD,
      height: STAGE_TOP + height + STAGE_PAD,
    });
    left += width + 2 * STAGE_PAD + STAGE_GAP;
  });
  return { nodes: placed, stages: boxes, edges };
}

function layStage(nodes: readonly GraphNode[], edges: Shape["edges"]): (GraphNode & Box)[] {
  const graph = new graphlib.Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 12,
    ranksep: 44,
    ranker: nodes.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  const known = new Set(nodes.map((node) => node.id));
  for (const node of nodes) graph.setNode(node.id, { width: NODE_WIDTH, height: heightOf(node) });
  for (const [need, node] of edges) if (known.has(need) && known.has(node)) graph.setEdge(need, node);
  dagre(graph);
  return nodes.map((node) => {
    const { x, y } = graph.node(node.id) as { x: number; y: number };
    const height = heightOf(node);
    return { ...node, x: Math.round(x - NODE_WIDTH / 2), y: Math.round(y - height / 2), width: NODE_WIDTH, height };
  });
}

export function heightOf(node: GraphNode): number {
  return node.members.length > 0 ? FOLD_HEIGHT : STEP_HEIGHT;
}
