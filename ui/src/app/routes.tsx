/** The addresses of the page. */
import { createBrowserRouter, Navigate, type RouteObject } from "react-router";
import { Loading } from "@/parts/Loading";
import { ErrorPage, NotFoundPage } from "./ErrorPage";
import { Shell } from "./Shell";
import { VIEWS } from "./views";

const OF_TASK: RouteObject[] = [
  { index: true, lazy: VIEWS.tree },
  { path: "graph", lazy: VIEWS.graph },
  { path: "timeline", lazy: VIEWS.timeline },
  { path: "cost", lazy: VIEWS.cost },
  { path: "artifacts", lazy: VIEWS.artifacts },
  { path: "artifacts/:name", lazy: VIEWS.artifacts },
  { path: "events", lazy: VIEWS.events },
  { path: "trace", lazy: VIEWS.trace },
  { path: "steps/:step", lazy: VIEWS.step },
  { path: "steps/:step/approval", lazy: VIEWS.approval },
  { path: "*", element: <NotFoundPage /> },
];

const ALL: RouteObject[] = [
  { index: true, element: <Navigate to="/inbox" replace /> },
  { path: "inbox", lazy: VIEWS.inbox },
  { path: "tasks", lazy: VIEWS.tasks },
  { path: "tasks/:task", lazy: VIEWS.task, children: [{ errorElement: <ErrorPage />, children: OF_TASK }] },
  { path: "events", lazy: VIEWS.events },
  { path: "fleet", lazy: VIEWS.fleet },
  { path: "*", element: <NotFoundPage /> },
];

export const ROUTES: RouteObject[] = [
  {
    element: <Shell />,
    errorElement: <ErrorPage />,
    hydrateFallbackElement: <Loading />,
    children: [{ errorElement: <ErrorPage />, children: ALL }],
  },
];

export function makeRouter() {
  return createBrowserRouter(ROUTES);
}
