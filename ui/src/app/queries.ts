import { QueryClient } from "@tanstack/react-query";
import { Problem } from "@/api/problem";

const TRIES_MAX = 2; // beyond the first; whoever is live again asks anew

/** What was asked is good until an event says otherwise, so that no view asks on its own account. */
export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: Number.POSITIVE_INFINITY,
        networkMode: "always", // a server on this machine answers without a network
        retry: (failures, error) => failures < TRIES_MAX && error instanceof Problem && error.passing,
        retryDelay: (failures) => Math.min(500 * 2 ** failures, 5_000),
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}
