/** The drawn graph.  Its nodes and edges change with the shape alone; what a node tells of its steps it hears itself. */
import "@xyflow/react/dist/base.css";
import {
  type Edge,
  MarkerType,
  type Node,
  type NodeTypes,
  Panel,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react";
import { Maximize2, ZoomIn, ZoomOut } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useMemo } from "react";
import { Button } from "@/parts/Button";
import { t } from "@/texts/texts";
import type { Layout } from "./layout";
import { KEYS, nearest } from "./moves";
import { FoldBox, type NodeData, STAGE_ENDS, type StageData, StageBox, StepBox } from "./nodes";
import { FIT, useView } from "./useView";

const TYPES: NodeTypes = { stage: StageBox, step: StepBox, fold: FoldBox };
const ZOOM_MIN = 0.05;
const ZOOM_MAX = 1.5;

type Props = {
  task: string;
  layout: Layout;
  current: string | null;
  /** The first node that is not over. */
  start: string | null;
  lit: ReadonlySet<string> | null;
  /** By a key. */
  onMove: (id: string) => void;
  children: ReactNode;
};

export function Canvas(props: Props) {
  return (
    <ReactFlowProvider>
      <Drawn {...props} />
    </ReactFlowProvider>
  );
}

function Drawn({ task, layout, current, start, lit, onMove, children }: Props) {
  const nodes = useMemo(() => nodesOf(layout, task), [layout, task]);
  const edges = useMemo(() => edgesOf(layout, lit), [layout, lit]);
  const flow = useReactFlow();
  const { begin, show } = useView(layout, start);
  const press = (event: KeyboardEvent) => {
    const direction = KEYS[event.key];
    if (direction === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const from = layout.nodes.find((node) => node.id === current) ?? layout.nodes[0];
    const to = from && nearest(layout.nodes, from, direction);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    onMove(to.id);
    show(to.id);
  };

  return (
    <div
      role="group"
      aria-label={t.graph.label}
      aria-description={t.graph.keys}
      onKeyDown={press}
      className="absolute inset-0"
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        onlyRenderVisibleElements
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        disableKeyboardA11y
        deleteKeyCode={null}
        selectionKeyCode={null}
        multiSelectionKeyCode={null}
        zoomOnDoubleClick={false}
        preventScrolling={false}
        zoomOnScroll={false}
        panOnScroll={false}
        zoomActivationKeyCode={["Control", "Meta"]}
        minZoom={ZOOM_MIN}
        maxZoom={ZOOM_MAX}
        onInit={begin}
        proOptions={{ hideAttribution: true }}
      >
        <Panel position="top-right" className="flex rounded-md border border-line bg-surface">
          <Zoom name={t.timeline.zoomIn} icon={<ZoomIn size={15} aria-hidden />} onClick={() => void flow.zoomIn()} />
          <Zoom
            name={t.timeline.zoomOut}
            icon={<ZoomOut size={15} aria-hidden />}
            onClick={() => void flow.zoomOut()}
          />
          <Zoom
            name={t.timeline.all}
            icon={<Maximize2 size={15} aria-hidden />}
            onClick={() => void flow.fitView(FIT)}
          />
        </Panel>
        <Panel position="bottom-left">{children}</Panel>
      </ReactFlow>
    </div>
  );
}

function Zoom({ name, icon, onClick }: { name: string; icon: ReactNode; onClick: () => void }) {
  return <Button look="quiet" className="px-1.5!" aria-label={name} title={name} icon={icon} onClick={onClick} />;
}

const CLICKABLE = { pointerEvents: "all" as const }; // else only what can be dragged or selected is

type Drawable = Node<NodeData, "step" | "fold"> | Node<StageData, "stage">;

/** With their sizes and the places of their handles, so that edges are right of what is out of sight, too. */
function nodesOf(layout: Layout, task: string): Drawable[] {
  const stages = layout.stages.map(({ number, name, x, y, width, height }): Drawable => {
    return {
      id: stageId(number),
      type: "stage",
      data: { name },
      ...placed(x, y, width, height, STAGE_ENDS),
      zIndex: -1,
      ariaRole: "group",
      ariaLabel: name,
    };
  });
  const nodes = layout.nodes.map(({ x, y, width, height, ...node }): Drawable => {
    return {
      id: node.id,
      type: node.members.length > 0 ? "fold" : "step",
      data: { node, task },
      ...placed(x, y, width, height),
      style: CLICKABLE,
    };
  });
  return [...stages, ...nodes];
}

function placed(x: number, y: number, width: number, height: number, ends = height / 2) {
  return {
    position: { x, y },
    width,
    height,
    measured: { width, height },
    handles: [
      { type: "target" as const, position: Position.Left, x: 0, y: ends, width: 1, height: 1 },
      { type: "source" as const, position: Position.Right, x: width, y: ends, width: 1, height: 1 },
    ],
  };
}

function stageId(number: number): string {
  return ` stage ${number}`; // no step's key begins like this
}

function edgesOf({ edges, stages }: Layout, lit: ReadonlySet<string> | null): Edge[] {
  const ways = stages.slice(1).map((stage, index): Edge => {
    const before = stages[index]?.number ?? 0;
    return { ...line(stageId(before), stageId(stage.number), "var(--line-strong)", 2), zIndex: -1 };
  });
  const needs = edges.map(([need, node]): Edge => {
    const on = lit !== null && lit.has(need) && lit.has(node);
    const edge = line(need, node, on ? "var(--wait)" : "var(--line-strong)", on ? 2.5 : 1.25);
    return lit !== null && !on ? { ...edge, style: { ...edge.style, opacity: 0.25 } } : edge;
  });
  return [...ways, ...needs];
}

function line(source: string, target: string, color: string, strokeWidth: number): Edge {
  return {
    id: `${source}\n${target}`,
    source,
    target,
    style: { stroke: color, strokeWidth },
    markerEnd: { type: MarkerType.ArrowClosed, color, width: 14, height: 14 },
    focusable: false,
    domAttributes: { "aria-hidden": true }, // each node's name tells how it stands
  };
}
