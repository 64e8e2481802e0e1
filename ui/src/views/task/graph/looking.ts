/** Which node one is at, and what is lit because of it. */
import { createContext } from "react";

export type Looking = {
  /** The node that takes the focus. */
  current: string | null;
  /** By a key one has moved there: it takes the focus as soon as it is drawn. */
  moved: { current: boolean };
  /** Null: everything; else the nodes that are not faded. */
  lit: ReadonlySet<string> | null;
  become: (id: string) => void;
  hover: (id: string | null) => void;
  open: (id: string) => void;
};

export const LookingContext = createContext<Looking>({
  current: null,
  moved: { current: false },
  lit: null,
  become: () => {},
  hover: () => {},
  open: () => {},
});
