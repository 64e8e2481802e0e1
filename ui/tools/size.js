// What the browser loads before the first view: the entry and what it imports, gzipped.  Fails above the limit.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT_KB = 250;
const folder = new URL("../../longtask/api/static/", import.meta.url);
const page = readFileSync(new URL("index.html", folder), "utf8");
const sizeOf = (path) => gzipSync(readFileSync(new URL(path, folder))).length / 1000;

const first = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((match) => match[1]);
const total = first.reduce((sum, path) => sum + sizeOf(path), 0);
for (const name of readdirSync(new URL("assets/", folder))
  .filter((name) => name.endsWith(".js"))
  .sort()) {
  const path = `assets/${name}`;
  console.log(`${sizeOf(path).toFixed(1).padStart(8)} KB  ${first.includes(path) ? "first  " : "later  "} ${name}`);
}
console.log(`${total.toFixed(1).padStart(8)} KB  at first load, ${LIMIT_KB} at most`);
if (total > LIMIT_KB) process.exit(1);
