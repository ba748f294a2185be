// The server, as the page uses it.

import { t } from "./language";
import { local } from "./local";
import { events } from "./sse";

export class ServerError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export const apiKey = {
  get: () => local.get("key") ?? "",
  set: (key: string) => (key ? local.set("key", key) : local.remove("key")),
};

// The server's own words, wherever they stand.
function messageOf(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: string } | string };
    if (typeof error === "string") return error;
    if (error?.message) return error.message;
  } catch {
    // Not ours: a proxy's page perhaps.
  }
  return body.slice(0, 500);
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey.get()) headers.set("Authorization", `Bearer ${apiKey.get()}`);
  const response = await fetch(path, { ...init, headers });
  if (!response.ok) throw new ServerError(response.status, messageOf(await response.text()) || response.statusText);
  return response;
}

export async function listModels(): Promise<string[]> {
  const { data } = (await (await ask("/v1/models")).json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
}

export interface Delta {
  content: string;
  reasoning: string;
  finish?: string;
  usage?: Usage;
}

interface Chunk {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null }; finish_reason?: string | null }[];
  usage?: Usage | null;
  error?: { message?: string; code?: unknown } | string;
}

// The answer in pieces. Ends without a `finish` when the connection did.
export async function* streamChat(body: object, signal: AbortSignal): AsyncGenerator<Delta> {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  for await (const event of events(response.body!)) {
    if (event === "[DONE]") return;
    const chunk = JSON.parse(event) as Chunk;
    if (chunk.error) throw new ServerError(200, messageOf(event));
    const choice = chunk.choices?.[0];
    yield {
      content: choice?.delta?.content ?? "",
      reasoning: choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "",
      finish: choice?.finish_reason ?? undefined,
      usage: chunk.usage ?? undefined,
    };
  }
}

// What to show for anything that `ask` throws.
export function errorText(error: unknown): string {
  if (!(error instanceof ServerError)) return t("unreachable");
  // Inside a stream the status was sent long before.
  return error.status === 200 ? error.message : t("httpError", { status: error.status, message: error.message });
}
