/** Where things stand on the page.  Names may hold any character. */

export function taskAddress(task: string, view = ""): string {
  return `/tasks/${encodeURIComponent(task)}${view && `/${view}`}`;
}

export function stepAddress(task: string, step: string): string {
  return taskAddress(task, `steps/${encodeURIComponent(step)}`);
}

export function approvalAddress(task: string, step: string): string {
  return `${stepAddress(task, step)}/approval`;
}

export function artifactAddress(task: string, name: string): string {
  return taskAddress(task, `artifacts/${encodeURIComponent(name)}`);
}
