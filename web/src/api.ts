// Client of the server's HTTP API.

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

// The error message of a response body, in OpenAI's or Ollama's format.
function messageOf(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: string } | string };
    if (typeof error === "string") return error;
    if (error?.message) return error.message;
  } catch {
    // Not JSON, for example an error page of a proxy.
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

// Streams the answer. Ends without a `finish` when the connection is lost.
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

// The message to show for an exception of `ask`.
export function errorText(error: unknown): string {
  if (!(error instanceof ServerError)) return t("unreachable");
  // An error inside a stream has no status of its own: 200 was already sent.
  return error.status === 200 ? error.message : t("httpError", { status: error.status, message: error.message });
}
