import { expect, test } from "vitest";
import { filesOf, unquoted } from "./patch";

const PATCH = `diff --git a/shop/base.py b/shop/base.py
index 1111111..2222222 100644
--- a/shop/base.py
+++ b/shop/base.py
@@ -1,3 +1,4 @@ class Base:
 import os
-import six
+import sys
+import json
--- a dashed line that went
 done
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git "a/gr\\303\\274n.txt" "b/gr\\303\\274n.txt"
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ "b/gr\\303\\274n.txt"
@@ -0,0 +1 @@
+diff --git a/this is b/a line
diff --git a/logo.png b/logo.png
deleted file mode 100644
index 4444444..0000000
GIT binary patch
literal 0
HcmV?d00001

diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
`;

test("a patch is cut into its files, each with its name, its kind and how much has changed", () => {
  expect(filesOf(PATCH).map(({ text, ...file }) => ({ ...file, first: text.split("\n", 1)[0] }))).toEqual([
    {
      path: "shop/base.py",
      before: null,
      kind: "modified",
      binary: false,
      insertions: 2,
      deletions: 2,
      first: "diff --git a/shop/base.py b/shop/base.py",
    },
    {
      path: "new name.txt",
      before: "old name.txt",
      kind: "renamed",
      binary: false,
      insertions: 0,
      deletions: 0,
      first: "diff --git a/old name.txt b/new name.txt",
    },
    {
      path: "grün.txt",
      before: null,
      kind: "added",
      binary: false,
      insertions: 1,
      deletions: 0,
      first: 'diff --git "a/gr\\303\\274n.txt" "b/gr\\303\\274n.txt"',
    },
    {
      path: "logo.png",
      before: null,
      kind: "deleted",
      binary: true,
      insertions: 0,
      deletions: 0,
      first: "diff --git a/logo.png b/logo.png",
    },
    {
      path: "run.sh",
      before: null,
      kind: "modified",
      binary: false,
      insertions: 0,
      deletions: 0,
      first: "diff --git a/run.sh b/run.sh",
    },
  ]);
});

test("nothing is a patch of no file", () => {
  expect(filesOf("")).toEqual([]);
});

test("names are read as git quotes them", () => {
  expect(unquoted('"a \\"b\\" \\\\ \\t\\303\\244"')).toBe('a "b" \\ \tä');
  expect(unquoted("plain")).toBe("plain");
});
