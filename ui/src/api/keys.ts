/** The names of what is asked, in the query cache.  An event makes all that begins with such a name stale. */
export const keys = {
  who: ["who"] as const,
  tasks: ["tasks"] as const,
  approvals: ["approvals"] as const,
  fleet: ["fleet"] as const,
  workspaces: ["workspaces"] as const,
  task: (task: string) => ["task", task] as const,
  tree: (task: string) => ["task", task, "tree"] as const,
  why: (task: string) => ["task", task, "why"] as const,
  graph: (task: string) => ["task", task, "graph"] as const,
  plan: (task: string) => ["task", task, "plan"] as const,
  changes: (task: string) => ["task", task, "changes"] as const,
  files: (task: string) => ["task", task, "files"] as const,
  artifacts: (task: string) => ["task", task, "artifacts"] as const,
  trace: (task: string) => ["task", task, "trace"] as const,
  step: (task: string, step: string) => ["task", task, "step", step] as const,
};
