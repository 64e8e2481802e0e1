/** Lays out beside the page, which stays fluid meanwhile. */
import { layOut } from "./layout";
import type { Shape } from "./shape";

type Scope = { onmessage: ((event: MessageEvent<Shape>) => void) | null; postMessage: (laid: unknown) => void };

const scope = globalThis as unknown as Scope;
scope.onmessage = ({ data }) => scope.postMessage(layOut(data));
