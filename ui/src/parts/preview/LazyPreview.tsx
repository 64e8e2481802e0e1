/** A preview, loaded with all that it takes to show one when there is one to show. */
import { lazy, Suspense } from "react";
import { Loading } from "@/parts/Loading";

const Preview = lazy(async () => ({ default: (await import("./Preview")).Preview }));

type Props = { blob: Blob; name: string; mediaType: string };

export function LazyPreview(props: Props) {
  return (
    <Suspense fallback={<Loading />}>
      <Preview {...props} />
    </Suspense>
  );
}
