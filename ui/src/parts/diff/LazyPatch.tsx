/** A patch, loaded with all that it takes to show one when there is one to show. */
import { lazy, Suspense } from "react";
import { Loading } from "@/parts/Loading";
import type { Commenting } from "./comments";

const Patch = lazy(async () => ({ default: (await import("./Patch")).Patch }));

type Props = { patch: string; commenting?: Commenting; marks?: ReadonlyMap<string, string>; about?: string };

export function LazyPatch(props: Props) {
  return (
    <Suspense fallback={<Loading />}>
      <Patch {...props} />
    </Suspense>
  );
}
