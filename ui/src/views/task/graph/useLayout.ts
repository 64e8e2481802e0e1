import { useEffect, useState } from "react";
import type { Layout } from "./layout";
import type { Shape } from "./shape";

/** The newest that is known: null until the first, and the one before while a changed shape is laid out. */
export function useLayout(shape: Shape): Layout | null {
  const [laid, setLaid] = useState<Layout | null>(null);
  useEffect(() => {
    if (typeof Worker === "undefined") {
      let wanted = true;
      void import("./layout").then(({ layOut }) => {
        if (wanted) setLaid(layOut(shape));
      });
      return () => {
        wanted = false;
      };
    }
    const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Layout>) => {
      setLaid(data);
      worker.terminate();
    };
    worker.postMessage(shape);
    return () => worker.terminate();
  }, [shape]);
  return laid;
}
