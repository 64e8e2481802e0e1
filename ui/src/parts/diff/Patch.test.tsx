import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { expectAccessible } from "@/testing/axe";
import { type Comment, withComment } from "./comments";
import { Patch } from "./Patch";

const PATCH = `diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
-two
+twelve
 three
diff --git a/b.py b/b.py
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/b.py
@@ -0,0 +1,${500} @@
${Array.from({ length: 500 }, (_, n) => `+line ${n}`).join("\n")}
`;

let wide = true;
beforeEach(() => {
  wide = true;
  vi.stubGlobal("matchMedia", () => ({ matches: wide, addEventListener: () => {}, removeEventListener: () => {} }));
  Element.prototype.scrollIntoView = () => {};
});

function Commented({ told }: { told: (comments: readonly Comment[]) => void }) {
  const [comments, setComments] = useState<readonly Comment[]>([]);
  const put = (comment: Comment) => {
    const next = withComment(comments, comment);
    setComments(next);
    told(next);
  };
  return <Patch patch={PATCH} commenting={{ comments, put }} />;
}

test("files are listed with counts, and a large one is folded until somebody looks", async () => {
  const { container } = render(<Patch patch={PATCH} marks={new Map([["a.py", "changed since"]])} />);
  expect(screen.getByText("2 files", { exact: false })).toBeTruthy();
  const small = screen.getByRole("button", { name: /a\.py.*changed since/, expanded: true });
  const large = screen.getByRole("button", { name: /b\.py.*new.*\+500/, expanded: false });
  expect(small).toBeTruthy();
  expect(container.textContent).not.toContain("line 499");
  await userEvent.click(large);
  expect(container.textContent).toContain("line 499");
});

test("what is shown side by side stands below each other where there is no room", async () => {
  const { container, unmount } = render(<Patch patch={PATCH} />);
  expect(container.querySelector(".diff-split")).not.toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Unified" }));
  expect(container.querySelector(".diff-split")).toBeNull();
  unmount();
  wide = false;
  const narrow = render(<Patch patch={PATCH} />);
  expect(narrow.container.querySelector(".diff-unified")).not.toBeNull();
  expect(screen.queryByRole("button", { name: "Split" })).toBeNull();
  await expectAccessible(narrow.container);
});

test("a line is commented on by keyboard alone, and one is back at the line afterwards", async () => {
  let said: readonly Comment[] = [];
  const { container } = render(<Commented told={(comments) => (said = comments)} />);
  const user = userEvent.setup();
  const first = screen.getByRole("button", { name: "Comment on a.py:-2" });
  first.focus();
  await user.keyboard("j");
  expect(document.activeElement).toBe(screen.getByRole("button", { name: "Comment on a.py:2" }));
  await user.keyboard("{Enter}");
  await user.keyboard("say why{Control>}{Enter}{/Control}");
  expect(said).toEqual([{ path: "a.py", line: 2, side: "new", text: "say why" }]);
  expect(document.activeElement?.getAttribute("aria-label")).toBe("Comment on a.py:2");
  expect(within(container).getByText("say why")).toBeTruthy();
  await expectAccessible(container);
  await user.click(screen.getByRole("button", { name: "Remove: a.py:2" }));
  expect(said).toEqual([]);
});

test("] and [ go from file to file", async () => {
  const { container } = render(<Patch patch={PATCH} />);
  const files = [...container.querySelectorAll<HTMLElement>("[data-file]")];
  files[0]?.focus();
  await userEvent.keyboard("]");
  expect(document.activeElement).toBe(files[1]);
  await userEvent.keyboard("[[");
  expect(document.activeElement).toBe(files[0]);
});
