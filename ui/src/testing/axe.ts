import axe from "axe-core";
import { expect } from "vitest";

/** Contrast is left out: jsdom paints nothing.  The tests in a browser look at it. */
export async function expectAccessible(container: Element): Promise<void> {
  const { violations } = await axe.run(container, {
    rules: {
      "color-contrast": { enabled: false },
      region: { enabled: false },
      "page-has-heading-one": { enabled: false },
    },
  });
  expect(
    violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" | ")}`),
  ).toEqual([]);
}
