/** What the list shows, kept in the address. */
import type { TaskFilters } from "@/api/tasks";

const TEXTS = ["name", "by", "workspace"] as const;

export function filtersOf(params: URLSearchParams): TaskFilters {
  const filters: TaskFilters = {};
  if (params.get("open") === "true") filters.open = true;
  const status = params.getAll("status").filter(Boolean);
  if (status.length > 0) filters.status = status;
  for (const key of TEXTS) {
    const value = params.get(key)?.trim();
    if (value) filters[key] = value;
  }
  return filters;
}

/** The address with one filter changed; null or empty takes it away. */
export function changed(params: URLSearchParams, key: string, value: string | null): URLSearchParams {
  const next = new URLSearchParams(params);
  if (value === null || value === "") next.delete(key);
  else next.set(key, value);
  return next;
}
