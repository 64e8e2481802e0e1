import { act, screen, waitFor } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { JournalEvent } from "@/api/documents";
import { answerWith, show } from "@/testing/render";
import { anEvent, TASK } from "@/testing/samples";
import { useJournal } from "./journal";

function Journal() {
  const { events, whole } = useJournal(TASK);
  return (
    <p>
      {events.map((event) => event.seq).join(" ")} {whole ? "whole" : "reading"}
    </p>
  );
}

/** A stream that tells what it is given. */
function stream() {
  let tell: (event: JournalEvent) => void = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      tell = (event) =>
        controller.enqueue(new TextEncoder().encode(`id: 1\nevent: event\ndata: ${JSON.stringify(event)}\n\n`));
    },
  });
  return { body, tell: (event: JournalEvent) => tell(event) };
}

test("it is read page after page, then followed without a gap and without anything twice", async () => {
  const written = [1, 2, 3, 4, 5].map((seq) => anEvent("step.started", { step: "a" }, seq));
  const { body, tell } = stream();
  const asked = answerWith({
    [`GET /v1/tasks/${TASK}/events`]: (request: Request) => {
      const after = Number(new URL(request.url).searchParams.get("cursor") ?? 0);
      const items = written.filter((event) => event.seq > after).slice(0, 2);
      return { items, next: String(items.at(-1)?.seq ?? after) };
    },
  });
  const usual = globalThis.fetch;
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) =>
    String(input instanceof Request ? input.url : input).includes("/v1/stream")
      ? new Response(body)
      : usual(input, init),
  );
  show(<Journal />);
  await screen.findByText("1 2 3 4 5 whole");
  written.push(anEvent("step.completed", { step: "a" }, 6), anEvent("step.completed", { step: "b" }, 7));
  act(() => tell(written[6] as JournalEvent)); // the sixth was never heard
  await screen.findByText("1 2 3 4 5 6 7 whole");
  expect(asked.filter((request) => request.url.includes("/events")).length).toBeLessThan(12);
});

test("a task that has ended is read once, and what comes after all is taken from its last page", async () => {
  const written = [1, 2, 3].map((seq) => anEvent("step.started", { step: "a" }, seq));
  const { body, tell } = stream();
  answerWith({ [`GET /v1/tasks/${TASK}/events`]: () => ({ items: [...written], next: null }) });
  const usual = globalThis.fetch;
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) =>
    String(input instanceof Request ? input.url : input).includes("/v1/stream")
      ? new Response(body)
      : usual(input, init),
  );
  show(<Journal />);
  await screen.findByText("1 2 3 whole");
  written.push(anEvent("longtask.reopened", {}, 4));
  await waitFor(() => {
    act(() => tell(written[3] as JournalEvent));
    expect(screen.getByText("1 2 3 4 whole")).toBeTruthy();
  });
});
