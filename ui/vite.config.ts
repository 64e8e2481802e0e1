import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` beside a server: LONGTASK_SERVER says where it listens.
const server = process.env.LONGTASK_SERVER ?? "http://127.0.0.1:8700";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../longtask/api/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content policy lets nothing in that stands in the page itself
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" }, // of what is bundled: the packages carry it
    rolldownOptions: {
      // What all views share comes with the page, not in thirty files; folders of parts/ are for some views only.
      output: {
        codeSplitting: {
          groups: [{ name: "shared", test: /src\/(?:(?:api|live|texts)\/|parts\/[^/]+$)|lucide-react|react-query/ }],
        },
      },
    },
  },
  worker: { format: "es" },
  server: {
    proxy: {
      "/v1": { target: server, changeOrigin: true, headers: { origin: server } },
    },
  },
  test: {
    environment: "jsdom",
    setupFiles: ["./src/testing/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
    restoreMocks: true,
    unstubGlobals: true,
    maxWorkers: 2,
    testTimeout: 30_000, // a machine may be busy with much else
  },
});
