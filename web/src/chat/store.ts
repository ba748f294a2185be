// Conversations in localStorage: one entry each, so that windows do not overwrite each other's. Images that do not fit
// are left out of the entry, the oldest first.

import { local } from "../local";
import type { TextKey } from "../texts/en";
import { everyMessage } from "./versions";

export interface Stats {
  promptTokens?: number;
  cachedTokens?: number;
  outputTokens: number;
  isEstimate?: boolean; // no usage was received: the number of deltas
  firstSeconds: number; // from the question to the first token
  seconds: number; // from there to the end
}

export type End = "stop" | "length" | "stopped" | "lost" | "error";

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, as the model wrote it
}

// A text file that was sent with a question.
export interface Attachment {
  name: string;
  text: string;
}

export interface AttachedImage {
  name: string;
  url: string; // data: URL; empty: it was not kept
}

// A question that is written.
export interface Draft {
  text: string;
  files: Attachment[];
  images: AttachedImage[];
}

export interface Failure {
  status: number; // of the HTTP response; 0: no response
  param?: string; // the field that was refused
}

export interface Message {
  id: string;
  role: "user" | "assistant" | "tool";
  content: string;
  files?: Attachment[];
  images?: AttachedImage[];
  reasoning?: string;
  calls?: ToolCall[];
  callId?: string; // of a tool's result
  model?: string;
  stats?: Stats;
  end?: End; // of an answer; undefined while it runs
  error?: string;
  failure?: Failure;
  // Other messages at this place, each with what followed it; the one of this message is empty. See versions.ts.
  versions?: Message[][];
  version?: number; // index of this message in `versions`
}

export interface Settings {
  system?: string;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  repetition_penalty?: number;
  max_tokens?: number;
  seed?: number;
  stop?: string[];
  thinking?: boolean;
  tools?: string; // JSON: a list of functions in OpenAI's format
  format?: "json" | "schema";
  schema?: string; // JSON Schema of the answer
}

export interface Conversation {
  id: string;
  title: string; // empty: the beginning of the first question
  model: string;
  settings: Settings;
  messages: Message[];
  updated: number; // ms
}

// crypto.randomUUID is not available over plain HTTP.
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function questionOf({ text, files, images }: Draft): Message {
  return { id: newId(), role: "user", content: text, ...(files.length > 0 ? { files } : {}), ...(images.length > 0 ? { images } : {}) };
}

export function titleOf(conversation: Conversation, otherwise: string): string {
  const { content = "", files = [], images = [] } = conversation.messages[0] ?? {};
  const first = content.trim().split("\n")[0]!;
  return conversation.title || first.slice(0, 80) || files[0]?.name || images[0]?.name || otherwise;
}

const kind = "chat.";

function read(name: string): Conversation | undefined {
  try {
    const value = JSON.parse(local.get(name) ?? "") as Conversation;
    if (!Array.isArray(value.messages) || typeof value.id !== "string") return undefined;
    // The window that was receiving the answer was closed.
    for (const message of everyMessage(value.messages)) if (message.role === "assistant") message.end ??= "lost";
    return value;
  } catch {
    return undefined;
  }
}

export class Store {
  conversations: Conversation[] = [];
  private readonly numDropped = new Map<string, number>(); // images that are not in the storage

  constructor() {
    this.load();
  }

  load(): void {
    const found = local.names().filter((name) => name.startsWith(kind)).map(read);
    this.conversations = found.filter((value) => value !== undefined);
    this.sort();
  }

  // Reads an entry that another window changed or removed.
  reload(name: string): void {
    if (!name.startsWith(kind)) return;
    const id = name.slice(kind.length);
    const value = read(name);
    this.conversations = this.conversations.filter((known) => known.id !== id);
    if (value) this.conversations.push(value);
    this.sort();
  }

  find(id: string | undefined): Conversation | undefined {
    return this.conversations.find((conversation) => conversation.id === id);
  }

  // The text to show when the conversation, or an image that was kept before, does not fit into the storage.
  save(conversation: Conversation): TextKey | undefined {
    if (!this.conversations.includes(conversation)) this.conversations.push(conversation);
    this.sort();
    const { id, messages } = conversation;
    const images = [...everyMessage(messages)].flatMap((message) => message.images ?? []).filter(({ url }) => url !== "");
    for (let count = 0; count <= images.length; ++count) {
      const dropped = new Set<unknown>(images.slice(0, count));
      const without = (_: string, value: unknown) => (dropped.has(value) ? { ...(value as AttachedImage), url: "" } : value);
      if (!local.set(kind + id, JSON.stringify(conversation, without))) continue;
      const before = this.numDropped.get(id) ?? 0;
      this.numDropped.set(id, count);
      return count > before ? "imagesDropped" : undefined;
    }
    return "storageFull";
  }

  remove(conversation: Conversation): void {
    this.conversations = this.conversations.filter((other) => other !== conversation);
    local.remove(kind + conversation.id);
  }

  private sort(): void {
    this.conversations.sort((a, b) => b.updated - a.updated);
  }
}
