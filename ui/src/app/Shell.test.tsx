import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test } from "vitest";
import { holdToken } from "@/api/token";
import { expectAccessible } from "@/testing/axe";
import { type Answers, answerWith, showRoutes } from "@/testing/render";
import { anApproval } from "@/testing/samples";
import { Shell } from "./Shell";

afterEach(() => holdToken(null));

const PAGES = ["/inbox", "/tasks", "/events", "/fleet"];
const UNKNOWN = { type: "urn:longtask:problem:unauthenticated", title: "who asks is not known", status: 401 };

function at(address: string, more: Answers = {}) {
  const asked = answerWith({
    "GET /v1/whoami": { name: "ann", roles: ["admin"], workspaces: null, token: null },
    "GET /v1/approvals": { items: [anApproval(), anApproval({ step: "other" })], next: null },
    ...more,
  });
  const children = PAGES.map((path) => ({ path, element: <h1>{`view of ${path}`}</h1> }));
  return { ...showRoutes([{ element: <Shell />, children }], address), asked };
}

test("the navigation tells where one is, how much waits, and that the page is live", async () => {
  const { container } = at("/tasks");
  const navigation = await screen.findByRole("navigation", { name: "Main" });
  expect(within(navigation).getByRole("link", { current: "page" }).textContent).toBe("Tasks");
  await within(navigation).findByText("2 waiting for you");
  await screen.findByText("Live");
  await expectAccessible(container);
});

test("views are reached by keys, and a list tells which", async () => {
  const { router } = at("/inbox");
  await screen.findByText("view of /inbox");
  const user = userEvent.setup();
  await user.keyboard("gt");
  await waitFor(() => expect(router.state.location.pathname).toBe("/tasks"));
  await user.keyboard("?");
  expect(within(screen.getByRole("dialog")).getByText("Go to the fleet")).toBeTruthy();
  await user.keyboard("gi");
  expect(router.state.location.pathname).toBe("/tasks");
});

test("a server that wants a token asks for one, and every request bears it from then on", async () => {
  const known = (request: Request) =>
    request.headers.get("Authorization") === "Bearer lt_good"
      ? { name: "bob", roles: ["viewer"], workspaces: null, token: "4k2m" }
      : Response.json(UNKNOWN, { status: 401 });
  const { asked } = at("/inbox", { "GET /v1/whoami": known });
  const user = userEvent.setup();
  const field = await screen.findByLabelText("Token");
  await user.type(field, "nonsense{Enter}");
  expect(screen.getByText(/begins with lt_/)).toBeTruthy();
  await user.clear(field);
  await user.type(field, "lt_bad{Enter}");
  await screen.findByText(/does not take it/);
  await user.clear(screen.getByLabelText("Token"));
  await user.type(screen.getByLabelText("Token"), "lt_good{Enter}");
  await screen.findByText("view of /inbox");
  expect(asked.at(-1)?.headers.get("Authorization")).toBe("Bearer lt_good");
  await user.click(screen.getByRole("button", { name: "Sign out" }));
  await screen.findByLabelText("Token");
});

test("on a phone theme, sign-out and whether the page is live stand behind one button", async () => {
  at("/inbox"); // which of both is shown is a matter of width: CSS hides the other
  await userEvent.click(await screen.findByRole("button", { name: "More" }));
  const dialog = within(screen.getByRole("dialog", { name: "More" }));
  expect(dialog.getByRole("group", { name: "Theme" })).toBeTruthy();
  expect(dialog.getByText("ann")).toBeTruthy();
  expect(dialog.getByText("Live")).toBeTruthy();
});

test("a theme is chosen for good, or left to the system", async () => {
  at("/inbox");
  await userEvent.click(await screen.findByRole("button", { name: "Dark" }));
  expect([document.documentElement.dataset.theme, localStorage.getItem("longtask.theme")]).toEqual(["dark", "dark"]);
  await userEvent.click(screen.getByRole("button", { name: "System" }));
  expect([document.documentElement.dataset.theme, localStorage.getItem("longtask.theme")]).toEqual([undefined, null]);
});
