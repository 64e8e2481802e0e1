// @vitest-environment node
import { expect, test } from "vitest";
import { changed, filtersOf } from "./filters";

test("filters are read from the address and written into it", () => {
  const params = new URLSearchParams("open=true&status=running&status=paused&name=shop&by=");
  expect(filtersOf(params)).toEqual({ open: true, status: ["running", "paused"], name: "shop" });
  expect(changed(params, "name", null).get("name")).toBeNull();
  expect(changed(params, "by", "ann").get("by")).toBe("ann");
  expect(filtersOf(new URLSearchParams())).toEqual({});
});
