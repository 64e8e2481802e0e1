/** Views in tests: the real routes and cache, and a server that is a table of answers. */
import { QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import type { ReactElement } from "react";
import { createMemoryRouter, RouterProvider, type RouteObject } from "react-router";
import { vi } from "vitest";
import { makeQueryClient } from "@/app/queries";
import { LiveProvider } from "@/live/Live";

/** By "METHOD /path" (a query is left out of it): a document, or a Response, or what makes one of a request. */
export type Answers = Record<string, unknown>;

/** Every request goes to `answers`; what they do not name is answered 404.  Gives the requests as they came. */
export function answerWith(answers: Answers): Request[] {
  const asked: Request[] = [];
  vi.stubGlobal("fetch", async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(String(input), "http://localhost"), init);
    asked.push(request.clone() as Request);
    const path = decodeURIComponent(new URL(request.url).pathname);
    if (path === "/v1/stream")
      return new Response(new ReadableStream(), { headers: { "Content-Type": "text/event-stream" } });
    const found = answers[`${request.method} ${path}`];
    const made: unknown = typeof found === "function" ? await (found as (request: Request) => unknown)(request) : found;
    if (made instanceof Response) return made;
    if (made === undefined)
      return Response.json(
        { type: "urn:longtask:problem:not-found", title: "no such thing", status: 404 },
        { status: 404 },
      );
    return Response.json(made);
  });
  return asked;
}

/** One element at an address; `path` is its route's pattern. */
export function show(element: ReactElement, address = "/", path = "*") {
  return showRoutes([{ path, element }], address);
}

export function showRoutes(routes: RouteObject[], address: string) {
  const router = createMemoryRouter(routes, { initialEntries: [address] });
  const client = makeQueryClient();
  const made = render(
    <QueryClientProvider client={client}>
      <LiveProvider>
        <RouterProvider router={router} />
      </LiveProvider>
    </QueryClientProvider>,
  );
  return { ...made, router, client };
}
