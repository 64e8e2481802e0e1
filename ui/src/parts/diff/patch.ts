/** A patch as git writes it, cut into its files; what stands in them is read when somebody looks. */

export type FileKind = "added" | "deleted" | "modified" | "renamed" | "copied";
export type FilePatch = {
  path: string;
  /** Of what was renamed or copied. */
  before: string | null;
  kind: FileKind;
  /** Bytes, of which no lines can be shown. */
  binary: boolean;
  insertions: number;
  deletions: number;
  /** Its part of the patch. */
  text: string;
};

const START = /^diff --git /m;

export function filesOf(patch: string): FilePatch[] {
  const files: FilePatch[] = [];
  let at = patch.search(START);
  while (at >= 0) {
    const next = patch.indexOf("\ndiff --git ", at);
    files.push(fileOf(patch.slice(at, next < 0 ? undefined : next + 1)));
    at = next < 0 ? -1 : next + 1;
  }
  return files;
}

function fileOf(text: string): FilePatch {
  const file: FilePatch = {
    path: "",
    before: null,
    kind: "modified",
    binary: false,
    insertions: 0,
    deletions: 0,
    text,
  };
  const lines = text.split("\n");
  let inHunks = false;
  let old = "";
  for (const line of lines) {
    if (line.startsWith("@@ ")) inHunks = true;
    else if (inHunks) {
      if (line.startsWith("+")) file.insertions += 1;
      else if (line.startsWith("-")) file.deletions += 1;
    } else if (line.startsWith("new file mode ")) file.kind = "added";
    else if (line.startsWith("deleted file mode ")) file.kind = "deleted";
    else if (line.startsWith("rename from ")) [file.kind, file.before] = ["renamed", unquoted(line.slice(12))];
    else if (line.startsWith("copy from ")) [file.kind, file.before] = ["copied", unquoted(line.slice(10))];
    else if (line.startsWith("rename to ")) file.path = unquoted(line.slice(10));
    else if (line.startsWith("copy to ")) file.path = unquoted(line.slice(8));
    else if (line.startsWith("--- ")) old = sided(line.slice(4));
    else if (line.startsWith("+++ ")) file.path = sided(line.slice(4)) || old;
    else if (line.startsWith("GIT binary patch") || line.startsWith("Binary files ")) {
      file.binary = true;
      break;
    }
  }
  if (file.path === "") file.path = headed(lines[0] ?? "");
  return file;
}

/** "" for /dev/null: it is not there on that side. */
function sided(name: string): string {
  const path = unquoted(name.replace(/\t$/, ""));
  return path === "/dev/null" ? "" : path.slice(2);
}

/** Of a file without lines: both sides bear the same name then. */
function headed(line: string): string {
  const names = line.slice("diff --git ".length);
  if (names.startsWith('"')) return unquoted(names.slice(0, names.indexOf('" ') + 1)).slice(2);
  return names.slice(2, Math.floor(names.length / 2));
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", a: "\x07", b: "\b", f: "\f", v: "\v" };

/** Git quotes names with signs of their own, and writes letters beyond ASCII as octal bytes. */
export function unquoted(name: string): string {
  if (!name.startsWith('"')) return name;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const [, octal, sign, plain] of name.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gs)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else bytes.push(...encoder.encode(sign === undefined ? plain : (ESCAPES[sign] ?? sign)));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
