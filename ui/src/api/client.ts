/** Calls to the server.  What is no success is thrown, as a Problem. */
import createClient from "openapi-fetch";
import { problemOf, unreachable } from "./problem";
import type { paths } from "./schema";
import { heldToken } from "./token";

export const client = createClient<paths>({
  baseUrl: typeof location === "undefined" ? "http://localhost" : location.origin,
  fetch: (request) => fetch(request),
});

client.use({
  onRequest({ request }) {
    const token = heldToken();
    if (token !== null) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
});

type Answer<T> = { data?: T; error?: unknown; response: Response };

export type Tagged<T> = { value: T; etag: string | null };

export async function told<T>(asked: Promise<Answer<T>>): Promise<T> {
  return (await tagged(asked)).value;
}

/** With the ETag, which an answer to it names as If-Match. */
export async function tagged<T>(asked: Promise<Answer<T>>): Promise<Tagged<T>> {
  let answer: Answer<T>;
  try {
    answer = await asked;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
  const { data, error, response } = answer;
  if (!response.ok) throw problemOf(response.status, error);
  return { value: data as T, etag: response.headers.get("ETag") };
}

/** For one act of a person: sent again after a broken connection, it is carried out once. */
export function actKey(): { "Idempotency-Key": string } {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing on plain http
  return { "Idempotency-Key": Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}

/** Cursors are told as texts; some addresses take them as numbers. */
export function numbered(cursor: string | undefined): number | undefined {
  return cursor === undefined ? undefined : Number(cursor);
}
