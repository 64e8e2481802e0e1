/** The live layer of a tab: events freshen the query cache, and whoever wants them hears them. */
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import type { JournalEvent } from "@/api/documents";
import { heldToken, onToken } from "@/api/token";
import { connect } from "./connect";
import { makeFreshener } from "./freshen";
import type { LiveState } from "./protocol";
import { taskOf, touched } from "./touched";

type Listener = (events: readonly JournalEvent[]) => void;
type Live = { state: LiveState; listeners: Set<Listener>; look: () => void };

const Context = createContext<Live | null>(null);

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [state, setState] = useState<LiveState>({ word: "connecting", since: Date.now() });
  const [listeners] = useState(() => new Set<Listener>());
  const lookRef = useRef<() => void>(() => {});

  useEffect(() => {
    const freshen = makeFreshener(client);
    const become = (state: LiveState) => {
      setState(state);
      if (state.word === "live")
        void client.refetchQueries({ type: "active", predicate: (query) => query.state.error !== null });
    };
    const connection = connect(heldToken(), (told) => {
      if (told.kind === "state") become(told.state);
      else if (told.kind === "fresh") freshen([[]]);
      else {
        freshen(told.events.flatMap(touched));
        for (const listener of listeners) listener(told.events);
      }
    });
    const look = () => {
      if (document.visibilityState !== "hidden") connection.look();
    };
    lookRef.current = look;
    const offToken = onToken(() => {
      connection.sign(heldToken());
      void client.resetQueries();
    });
    document.addEventListener("visibilitychange", look);
    addEventListener("online", look);
    const back = (event: PageTransitionEvent) => {
      if (event.persisted) connection.sign(heldToken());
    };
    addEventListener("pagehide", connection.close);
    addEventListener("pageshow", back);
    return () => {
      offToken();
      document.removeEventListener("visibilitychange", look);
      removeEventListener("online", look);
      removeEventListener("pagehide", connection.close);
      removeEventListener("pageshow", back);
      connection.close();
    };
  }, [client, listeners]);

  return <Context value={{ state, listeners, look: () => lookRef.current() }}>{children}</Context>;
}

function useLive(): Live {
  const live = useContext(Context);
  if (live === null) throw new Error("outside of LiveProvider");
  return live;
}

export function useLiveState(): LiveState {
  return useLive().state;
}

/** Try now, not after the pause. */
export function useLook(): () => void {
  return useLive().look;
}

/** Hears each event of one task, or of all when `task` is null, in their order. */
export function useLiveEvents(task: string | null, hear: Listener): void {
  const { listeners } = useLive();
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => {
    const listener: Listener = (events) => {
      const own = task === null ? events : events.filter((event) => taskOf(event) === task);
      if (own.length > 0) latest.current(own);
    };
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, [listeners, task]);
}
