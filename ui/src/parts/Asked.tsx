/** An answer of the server, on its way, refused, or here: every view shows the first two in the same way. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Loading } from "./Loading";
import { ProblemNote } from "./ProblemNote";

/** What is known is shown, though asking anew has failed: then with the reason above it. */
export function Asked<T>({ query, children }: { query: UseQueryResult<T>; children: (value: T) => ReactNode }) {
  const note = query.error === null ? null : <ProblemNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return note ?? <Loading />;
  return (
    <>
      {note}
      {children(query.data)}
    </>
  );
}
