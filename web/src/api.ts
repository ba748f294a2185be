// Client of the server's HTTP API.

import { t } from "./language";
import { local } from "./local";
import { events } from "./sse";

export class ServerError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly param?: string, // the field of the request that was refused
  ) {
    super(message);
  }
}

export const apiKey = {
  get: () => local.get("key") ?? "",
  set: (key: string) => (key ? local.set("key", key) : local.remove("key")),
};

// The error of a response body, in OpenAI's or Ollama's format.
function errorOf(status: number, body: string, otherwise: string): ServerError {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: string; param?: string | null } | string };
    if (typeof error === "string") return new ServerError(status, error);
    if (error?.message) return new ServerError(status, error.message, error.param ?? undefined);
  } catch {
    // Not JSON, for example an error page of a proxy.
  }
  return new ServerError(status, body.slice(0, 500) || otherwise);
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey.get()) headers.set("Authorization", `Bearer ${apiKey.get()}`);
  const response = await fetch(path, { ...init, headers });
  if (!response.ok) throw errorOf(response.status, await response.text(), response.statusText);
  return response;
}

export async function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
}

export interface CallDelta {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

export interface Delta {
  content: string;
  reasoning: string;
  calls: CallDelta[];
  finish?: string;
  usage?: Usage;
}

interface Chunk {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null; tool_calls?: CallDelta[] | null };
    finish_reason?: string | null;
  }[];
  usage?: Usage | null;
  error?: { message?: string; code?: unknown } | string;
}

// Streams the answer. Ends without a `finish` when the connection is lost.
export async function* streamChat(body: object, signal: AbortSignal): AsyncGenerator<Delta> {
  const response = await post("/v1/chat/completions", { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  for await (const event of events(response.body!)) {
    if (event === "[DONE]") return;
    const chunk = JSON.parse(event) as Chunk;
    if (chunk.error) throw errorOf(200, event, "");
    const choice = chunk.choices?.[0];
    yield {
      content: choice?.delta?.content ?? "",
      reasoning: choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "",
      calls: choice?.delta?.tool_calls ?? [],
      finish: choice?.finish_reason ?? undefined,
      usage: chunk.usage ?? undefined,
    };
  }
}

// The message to show for an exception of `ask`.
export function errorText(error: unknown): string {
  if (!(error instanceof ServerError)) return t("unreachable");
  if (error.status === 401) return t(apiKey.get() ? "apiKeyWrong" : "apiKeyWanted");
  // An error inside a stream has no status of its own: 200 was already sent.
  return error.status === 200 ? error.message : t("httpError", { status: error.status, message: error.message });
}
