import { queryOptions } from "@tanstack/react-query";
import { client, told } from "./client";
import { keys } from "./keys";

const FLEET_MS = 5_000; // workers tell that often that they are there; no event does

export function fleetQuery() {
  return queryOptions({
    queryKey: keys.fleet,
    queryFn: ({ signal }) => told(client.GET("/v1/fleet", { signal })),
    refetchInterval: FLEET_MS,
  });
}

export function workspacesQuery() {
  return queryOptions({
    queryKey: keys.workspaces,
    queryFn: ({ signal }) => told(client.GET("/v1/workspaces", { signal })),
  });
}

/** Who the caller is, and what the roles let it do. */
export function whoQuery() {
  return queryOptions({
    queryKey: keys.who,
    queryFn: ({ signal }) => told(client.GET("/v1/whoami", { signal })),
    staleTime: 60_000,
  });
}
