import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router";
import { makeQueryClient } from "./app/queries";
import { makeRouter } from "./app/routes";
import "./app/style.css";
import { notePartsThatLack } from "./app/outdated";
import { loadAhead } from "./app/views";
import { LiveProvider } from "./live/Live";

const root = document.getElementById("root");
if (root === null) throw new Error("no element to show the page in");

notePartsThatLack();
loadAhead();
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={makeQueryClient()}>
      <LiveProvider>
        <RouterProvider router={makeRouter()} />
      </LiveProvider>
    </QueryClientProvider>
  </StrictMode>,
);
