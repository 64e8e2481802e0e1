import { screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import { answerWith, showRoutes } from "@/testing/render";
import { ErrorPage } from "./ErrorPage";
import { isLacking, notePartsThatLack, reloadIfNewer } from "./outdated";

const OURS = '<script type="module" crossorigin src="/assets/index-ours.js"></script>';

beforeEach(() => {
  sessionStorage.clear();
  document.head.innerHTML = '<script type="module" src="/assets/index-ours.js"></script>';
});

async function reloads(page: unknown): Promise<number> {
  answerWith({ "GET /": page });
  const reload = vi.fn();
  await reloadIfNewer(reload);
  await reloadIfNewer(reload);
  return reload.mock.calls.length;
}

test("the page is loaded anew once when the server has another one", async () => {
  expect(await reloads(() => new Response(OURS.replace("ours", "newer")))).toBe(1);
});

test.each([
  ["has the same", () => new Response(OURS)],
  ["has none", () => new Response("the page is not built")],
  ["is not well", () => new Response(OURS.replace("ours", "newer"), { status: 503 })],
])("it is not loaded anew when the server %s", async (_, page) => {
  expect(await reloads(page)).toBe(0);
});

test("a part that could not be loaded is told as such", async () => {
  notePartsThatLack();
  const error = new TypeError("Failed to fetch dynamically imported module");
  dispatchEvent(Object.assign(new Event("vite:preloadError"), { payload: error }));
  expect([isLacking(error), isLacking(new TypeError("another")), isLacking(null)]).toEqual([true, false, false]);
  answerWith({ "GET /": () => new Response(OURS) });
  vi.spyOn(console, "error").mockImplementation(() => {});
  showRoutes(
    [{ path: "*", lazy: () => Promise.reject(error), errorElement: <ErrorPage />, hydrateFallbackElement: <p /> }],
    "/",
  );
  await screen.findByRole("heading", { name: "This part of the page could not be loaded" });
});
