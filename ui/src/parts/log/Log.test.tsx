import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { Log } from "./Log";
import { makeLines } from "./lines";

const HEIGHT = 360;

beforeEach(() => {
  // jsdom lays nothing out: a box of 20 lines
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(HEIGHT);
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(800);
  vi.spyOn(HTMLElement.prototype, "scrollHeight", "get").mockReturnValue(18_000);
});

function aLog(count: number) {
  const lines = makeLines();
  lines.add([
    { n: 1, at: 0, stream: "out", text: Array.from({ length: count }, (_, n) => `line ${n + 1}\n`).join("") },
  ]);
  return lines.all;
}

function box(): HTMLElement {
  return screen.getByRole("group", { name: /lines$/ });
}

test("of many lines only those in sight are there", async () => {
  const { container } = render(
    <Log label="Output" name="a.txt" lines={aLog(100_000)} version={1} ended live={false} />,
  );
  await screen.findByText("line 1");
  expect(container.querySelectorAll("[data-index]").length).toBeLessThan(120);
});

test("a search tells how often, goes on and back, and begins anew at the end", async () => {
  const { container } = render(<Log label="Output" name="a.txt" lines={aLog(30)} version={1} ended live={false} />);
  const user = userEvent.setup();
  await user.type(screen.getByRole("searchbox"), "line 2");
  await screen.findByText("11 lines");
  await user.keyboard("{Enter}");
  await screen.findByText("1 / 11");
  await user.keyboard("{Shift>}{Enter}{/Shift}");
  await screen.findByText("11 / 11");
  await user.click(screen.getByRole("button", { name: "Next match" }));
  await screen.findByText("1 / 11");
  await user.type(screen.getByRole("searchbox"), "x");
  await screen.findByText("not found");
  await expectAccessible(container);
});

test("it follows what comes, lets go when one scrolls up, and takes hold again at the end", async () => {
  const lines = aLog(1_000);
  render(<Log label="Output" name="a.txt" lines={lines} version={1} ended={false} live />);
  const follow = screen.getByRole("button", { name: "Follow" });
  expect(follow.getAttribute("aria-pressed")).toBe("true");
  expect(box().scrollTop).toBe(18_000);
  fireEvent.scroll(box());
  box().scrollTop = 9_000;
  fireEvent.scroll(box());
  await waitFor(() => expect(follow.getAttribute("aria-pressed")).toBe("false"));
  box().scrollTop = 18_000 - HEIGHT;
  fireEvent.scroll(box());
  await waitFor(() => expect(follow.getAttribute("aria-pressed")).toBe("true"));
});

test("what has ended is not followed, and nothing is said to have been written when nothing was", async () => {
  render(<Log label="Output" name="a.txt" lines={[]} version={1} ended live={false} />);
  expect(screen.queryByRole("button", { name: "Follow" })).toBeNull();
  expect(screen.getByText("It has written nothing.")).toBeTruthy();
});
