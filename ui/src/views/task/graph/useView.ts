/** Which part of the graph is looked at: first, and when one goes to a node that is out of sight. */
import { useReactFlow, useStoreApi } from "@xyflow/react";
import type { Layout } from "./layout";

export const FIT = { padding: 0.03, maxZoom: 1 };
const READABLE = 0.8; // smaller is hard to read
const MARGIN = 32; // px around what is looked at

/** `start`: the node that is looked at first, where not all of the graph can be read at once. */
export function useView(layout: Layout, start: string | null) {
  const flow = useReactFlow();
  const store = useStoreApi();

  const begin = () => {
    const { width, height } = store.getState();
    const right = Math.max(...layout.stages.map((stage) => stage.x + stage.width));
    const bottom = Math.max(...layout.stages.map((stage) => stage.height));
    if (Math.min(width / right, height / bottom) * (1 - 2 * FIT.padding) >= READABLE) {
      void flow.fitView(FIT);
      return;
    }
    const node = layout.nodes.find((one) => one.id === start) ?? layout.nodes[0];
    const stage = layout.stages.find((one) => one.number === node?.stage);
    if (node === undefined || stage === undefined) return;
    void flow.setViewport({ x: placeOf(stage.x, right, width), y: placeOf(node.y, bottom, height), zoom: READABLE });
  };

  /** Moves no further than it takes to see the whole node. */
  const show = (id: string) => {
    const node = layout.nodes.find((one) => one.id === id);
    if (node === undefined) return;
    const { width, height } = store.getState();
    const { x, y, zoom } = flow.getViewport();
    if (zoom < READABLE / 2) {
      void flow.setCenter(node.x + node.width / 2, node.y + node.height / 2, { zoom: READABLE });
      return;
    }
    const right = missing(node.x * zoom + x, node.width * zoom, width);
    const down = missing(node.y * zoom + y, node.height * zoom, height);
    if (right !== 0 || down !== 0) void flow.setViewport({ x: x + right, y: y + down, zoom });
  };

  return { begin, show };
}

/** How far something of that size has to move, px, to stand within the room. */
function missing(at: number, size: number, room: number): number {
  return Math.max(MARGIN - at, 0) + Math.min(room - MARGIN - at - size, 0);
}

/** Where the graph's beginning stands, px, so that `at` is a third into the room, and no more is empty than need be. */
function placeOf(at: number, length: number, room: number): number {
  const free = room - length * READABLE;
  return free > 0 ? free / 2 : Math.min(MARGIN, Math.max(room / 3 - at * READABLE, free - MARGIN));
}
