import { expect, test } from "vitest";
import type { Graph } from "@/api/documents";
import { layOut } from "./layout";
import { nearest } from "./moves";
import { type GraphNode, shapeKey, shapeOf } from "./shape";
import { waitsOf } from "./waits";

function graph(
  steps: [key: string, stage: number, owner?: string, kind?: string, state?: string][],
  edges: [string, string][],
): Graph {
  return {
    task: "t",
    name: "t",
    stages: ["one", "two"],
    steps: steps.map(([key, stage, owner, kind, state]) => ({
      key,
      kind: kind ?? "run",
      stage,
      state: state ?? "blocked",
      owner: owner ?? null,
    })),
    edges,
    steps_left_out: 0,
  };
}

test("what belongs to a step is folded into it, however deep, with its edges", () => {
  const shape = shapeOf(
    graph(
      [
        ["a", 1],
        ["each", 1, undefined, "for_each"],
        ["each[0]", 1, "each"],
        ["each[0].fix", 1, "each[0]"],
        ["each[1]", 1, "each"],
        ["b", 2],
      ],
      [
        ["a", "each"],
        ["a", "each[0]"],
        ["each[0].fix", "each[0]"],
        ["each[1]", "b"],
        ["each", "b"],
      ],
    ),
  );
  expect(shape.nodes).toEqual([
    { id: "a", stage: 1, kind: "run", step: "a", members: [] },
    { id: "each", stage: 1, kind: "for_each", step: "each", members: ["each[0]", "each[0].fix", "each[1]"] },
    { id: "b", stage: 2, kind: "run", step: "b", members: [] },
  ]);
  expect(shape.edges).toEqual([
    ["a", "each"],
    ["each", "b"],
  ]);
});

test("many steps that are alike are one node, few are not", () => {
  const many = Array.from({ length: 20 }, (_, n): [string, number] => [`m${n}`, 1]);
  const few = Array.from({ length: 3 }, (_, n): [string, number] => [`f${n}`, 1]);
  const shape = shapeOf(graph([...many, ...few, ["end", 2]], [...many.map(([key]): [string, string] => [key, "end"])]));
  expect(shape.nodes.map((node) => [node.id, node.members.length])).toEqual([
    ["m0", 20],
    ["f0", 0],
    ["f1", 0],
    ["f2", 0],
    ["end", 0],
  ]);
  expect(shape.edges).toEqual([["m0", "end"]]);
});

test("states do not change the shape", () => {
  const steps: [string, number][] = [
    ["a", 1],
    ["b", 2],
  ];
  expect(shapeKey(graph(steps, []))).toBe(
    shapeKey(
      graph(
        steps.map(([key, stage]) => [key, stage, undefined, "run", "completed"]),
        [],
      ),
    ),
  );
  expect(shapeKey(graph(steps, []))).not.toBe(shapeKey(graph(steps, [["a", "b"]])));
});

test("stages stand from left to right, and no two nodes on each other", () => {
  const chain = Array.from({ length: 40 }, (_, n): [string, number] => [`s${n}`, n < 25 ? 1 : 2]);
  const laid = layOut(
    shapeOf(
      graph(
        chain,
        chain.slice(1).flatMap(([key], n): [string, string][] => (n % 3 === 0 ? [] : [[chain[n]?.[0] ?? "", key]])),
      ),
    ),
  );
  const [one, two] = laid.stages;
  expect((one?.x ?? 0) + (one?.width ?? 0)).toBeLessThan(two?.x ?? 0);
  for (const node of laid.nodes) {
    const box = laid.stages.find((stage) => stage.number === node.stage);
    expect(node.x).toBeGreaterThanOrEqual(box?.x ?? 0);
    expect(node.x + node.width).toBeLessThanOrEqual((box?.x ?? 0) + (box?.width ?? 0));
    for (const other of laid.nodes) {
      if (other.id === node.id) continue;
      const apart =
        node.x + node.width <= other.x ||
        other.x + other.width <= node.x ||
        node.y + node.height <= other.y ||
        other.y + other.height <= node.y;
      expect(apart).toBe(true);
    }
  }
});

test("a blocked step waits for its open needs, however far, and else for the stage before", () => {
  const shape = shapeOf(
    graph(
      [
        ["done", 1],
        ["ask", 1],
        ["a", 1],
        ["b", 1],
        ["later", 2],
        ["free", 2],
      ],
      [
        ["done", "a"],
        ["ask", "a"],
        ["a", "b"],
        ["later", "free"],
      ],
    ),
  );
  const states: Record<string, string> = {
    done: "completed",
    ask: "waiting",
    later: "blocked",
    a: "blocked",
    b: "blocked",
    free: "blocked",
  };
  const open = (id: string) =>
    [...(waitsOf(shape, id, (node: GraphNode) => [states[node.id] ?? ""])?.open ?? [])].sort();
  expect(open("b")).toEqual(["a", "ask"]);
  expect(open("free")).toEqual(["a", "ask", "b", "later"]);
  expect(open("ask")).toEqual([]);
});

test("arrows lead to the nearest node ahead", () => {
  const at = (id: string, x: number, y: number) => ({ id, x, y, width: 10, height: 10 });
  const nodes = [at("a", 0, 0), at("b", 50, 0), at("c", 40, 100), at("d", 0, 30)];
  const [a] = nodes as [(typeof nodes)[number]];
  expect(nearest(nodes, a, "right")?.id).toBe("b");
  expect(nearest(nodes, a, "down")?.id).toBe("d");
  expect(nearest(nodes, a, "left")).toBeNull();
});
