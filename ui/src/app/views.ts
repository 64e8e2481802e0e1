/** The views, each loaded when it is first looked at; those that come next as a rule while nothing else is to do. */

export const VIEWS = {
  inbox: async () => ({ Component: (await import("@/views/inbox/InboxView")).InboxView }),
  tasks: async () => ({ Component: (await import("@/views/tasks/TasksView")).TasksView }),
  task: async () => ({ Component: (await import("@/views/task/TaskFrame")).TaskFrame }),
  tree: async () => ({ Component: (await import("@/views/task/tree/TreeView")).TreeView }),
  graph: async () => ({ Component: (await import("@/views/task/graph/GraphView")).GraphView }),
  timeline: async () => ({ Component: (await import("@/views/task/timeline/TimelineView")).TimelineView }),
  cost: async () => ({ Component: (await import("@/views/task/cost/CostView")).CostView }),
  artifacts: async () => ({ Component: (await import("@/views/artifacts/ArtifactsView")).ArtifactsView }),
  events: async () => ({ Component: (await import("@/views/events/EventsView")).EventsView }),
  trace: async () => ({ Component: (await import("@/views/trace/TraceView")).TraceView }),
  step: async () => ({ Component: (await import("@/views/step/StepView")).StepView }),
  approval: async () => ({ Component: (await import("@/views/approval/ApprovalView")).ApprovalView }),
  fleet: async () => ({ Component: (await import("@/views/fleet/FleetView")).FleetView }),
};

const NEXT = [VIEWS.task, VIEWS.tree, VIEWS.step, VIEWS.approval, VIEWS.tasks, VIEWS.inbox] as const;
const SOON_MS = 2_000;

/** So that they are there at once, and though the server be away. */
export function loadAhead(): void {
  setTimeout(() => {
    for (const view of NEXT) view().catch(() => {});
  }, SOON_MS);
}
