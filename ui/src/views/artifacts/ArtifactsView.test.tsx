import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { answerWith, showRoutes } from "@/testing/render";
import { TASK } from "@/testing/samples";
import { ArtifactsView } from "./ArtifactsView";
import { previewKind } from "@/parts/preview/kind";

const ITEMS = [
  { name: "report.md", digest: "d1", size_bytes: 1_200, media_type: "text/markdown", step: "report" },
  { name: "out/data.json", digest: "d2", size_bytes: 40, media_type: "application/json", step: "collect" },
  { name: "core.bin", digest: "d3", size_bytes: 2_000_000, media_type: "application/octet-stream", step: "build" },
];

function at(address: string) {
  const asked = answerWith({
    [`GET /v1/tasks/${TASK}/artifacts`]: { items: ITEMS, next: null },
    [`GET /v1/tasks/${TASK}/artifacts/report.md`]: () => new Response("# Done\n\nAll **3** modules."),
    [`GET /v1/tasks/${TASK}/artifacts/out/data.json`]: () =>
      new Response('{"modules": [1, 2], "deep": {"a": {"b": null}}}'),
  });
  const routes = ["/tasks/:task/artifacts", "/tasks/:task/artifacts/:name"].map((path) => ({
    path,
    element: <ArtifactsView />,
  }));
  return { ...showRoutes(routes, `/tasks/${TASK}/artifacts${address}`), asked };
}

test("a report is chosen and read", async () => {
  const { container, router } = at("");
  await userEvent.click(await screen.findByRole("link", { name: /report.md/ }));
  await screen.findByRole("heading", { name: "Done" });
  expect(router.state.location.pathname).toBe(`/tasks/${TASK}/artifacts/report.md`);
  expect(screen.getByRole("link", { name: "Download" }).getAttribute("href")).toBe(
    `/v1/tasks/${TASK}/artifacts/report.md?digest=d1`,
  );
  await expectAccessible(container);
});

test("a name may hold slashes, and JSON unfolds", async () => {
  at("/out%2Fdata.json");
  const tree = await screen.findByRole("button", { name: /deep/ });
  expect(screen.queryByText("null")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: /^a:/ }));
  expect(screen.getByText("null")).toBeTruthy();
  expect(tree.getAttribute("aria-expanded")).toBe("true");
});

test("what cannot be shown can be kept, and by-products are there when asked for", async () => {
  const { asked } = at("/core.bin");
  const chosen = await screen.findByRole("region", { name: "core.bin" });
  expect(within(chosen).getByText("This kind of file is not shown.")).toBeTruthy();
  await userEvent.click(screen.getByLabelText(/what attempts leave/));
  expect(asked.some((request) => request.url.includes("all=true"))).toBe(true);
});

test("an artifact is shown by what it says that it is, else by its name", () => {
  expect(previewKind("text/markdown; charset=utf-8", "x")).toBe("markdown");
  expect(previewKind("text/plain", "shop.patch")).toBe("diff");
  expect(previewKind("application/octet-stream", "a.json")).toBe("json");
  expect(previewKind("application/x-ndjson", "a.jsonl")).toBe("text");
  expect(previewKind("image/svg+xml", "a.svg")).toBe("none");
  expect(previewKind("text/html", "a.html")).toBe("text");
  expect(previewKind("image/png", "a")).toBe("image");
});
