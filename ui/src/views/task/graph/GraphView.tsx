/** A task as a graph: what waits for what. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Graph, OVER, type Step, type TaskTree } from "@/api/documents";
import { graphQuery, treeQuery } from "@/api/tasks";
import { Asked } from "@/parts/Asked";
import { Empty } from "@/parts/Empty";
import { Loading } from "@/parts/Loading";
import { useTaskParam } from "@/parts/params";
import { t, worded } from "@/texts/texts";
import { Canvas } from "./Canvas";
import { FoldDialog } from "./FoldDialog";
import { Looked } from "./Looked";
import { type Looking, LookingContext } from "./looking";
import { type GraphNode, shapeKey, shapeOf } from "./shape";
import { makeSteps, StepsContext } from "./steps";
import { useLayout } from "./useLayout";
import { type Waits, waitsOf } from "./waits";

export function GraphView() {
  const task = useTaskParam();
  const tree = useQuery(treeQuery(task));
  const graph = useQuery(graphQuery(task));
  if (!tree.data) return null;
  const shown = tree.data;
  return (
    <Asked query={graph}>
      {(found) => (found.steps.length === 0 ? <Empty title={t.graph.none} /> : <Drawn graph={found} tree={shown} />)}
    </Asked>
  );
}

function Drawn({ graph, tree }: { graph: Graph; tree: TaskTree }) {
  const key = shapeKey(graph);
  const latest = useRef(graph);
  latest.current = graph;
  const shape = useMemo(() => shapeOf(latest.current), [key]); // which tells all that the shape is made of
  const layout = useLayout(shape);
  const [steps] = useState(() => makeSteps(tree.steps));
  useEffect(() => steps.take(tree.steps), [steps, tree.steps]);

  const byKey = useMemo(() => new Map(tree.steps.map((step) => [step.key, step])), [tree.steps]);
  const [chosen, setChosen] = useState<string | null>(null);
  const [focused, setFocused] = useState(false);
  const [hovered, setHovered] = useState<string | null>(null);
  const [opened, setOpened] = useState<string | null>(null);
  const moved = useRef(false);
  const current =
    chosen !== null && shape.nodes.some((node) => node.id === chosen) ? chosen : (shape.nodes[0]?.id ?? null);
  const looked = hovered ?? (focused ? current : null);
  const waits = useWaits(shape, looked, byKey);
  const looking = useMemo((): Looking => {
    return { current, moved, lit: waits?.all ?? null, become: setChosen, hover: setHovered, open: setOpened };
  }, [current, waits]);
  const node = shape.nodes.find((one) => one.id === opened);
  const step = byKey.get(shape.nodes.find((one) => one.id === looked)?.step ?? "");

  if (layout === null) return <Loading />;
  return (
    <StepsContext value={steps}>
      <LookingContext value={looking}>
        <div
          className="relative min-h-[28rem] flex-1 overflow-hidden rounded-lg border border-line bg-ground"
          onFocus={() => setFocused(true)}
          onBlur={(event) => {
            if (event.currentTarget.contains(event.relatedTarget)) return;
            setFocused(false);
            moved.current = false;
          }}
        >
          <Canvas
            task={tree.id}
            layout={layout}
            current={current}
            start={
              shape.nodes.find((one) => !OVER.has(byKey.get(one.step ?? one.members[0] ?? "")?.state ?? ""))?.id ?? null
            }
            lit={looking.lit}
            onMove={(id) => {
              moved.current = true;
              setChosen(id);
            }}
          >
            {step === undefined ? null : <Looked task={tree.id} step={step} />}
          </Canvas>
        </div>
        <p className="mt-1.5 text-muted">{t.graph.hint}</p>
        {graph.steps_left_out > 0 ? <p className="text-muted">{t.task.leftOut(graph.steps_left_out)}</p> : null}
        {node === undefined ? null : (
          <FoldDialog
            task={tree.id}
            name={node.step ?? t.graph.alike(node.members.length, worded(t.words.kind, node.kind))}
            step={byKey.get(node.step ?? "") ?? null}
            members={node.members.flatMap((one) => byKey.get(one) ?? [])}
            stages={graph.stages}
            onClose={() => setOpened(null)}
          />
        )}
      </LookingContext>
    </StepsContext>
  );
}

/** The same value as long as the same nodes are lit, so that an event that moves none of them draws nothing anew. */
function useWaits(
  shape: ReturnType<typeof shapeOf>,
  looked: string | null,
  steps: ReadonlyMap<string, Step>,
): Waits | null {
  const kept = useRef<{ text: string; waits: Waits | null }>({ text: "", waits: null });
  const waits = useMemo(() => {
    if (looked === null) return null;
    return waitsOf(shape, looked, (node: GraphNode) =>
      (node.step === null ? node.members : [node.step, ...node.members]).map(
        (key) => steps.get(key)?.state ?? "blocked",
      ),
    );
  }, [shape, looked, steps]);
  const text = waits === null ? "" : [...waits.all].join("\n");
  if (kept.current.text !== text) kept.current = { text, waits };
  return kept.current.waits;
}
