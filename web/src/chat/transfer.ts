// Chats as files: JSON keeps everything, Markdown is for reading and can be read back, without images.

import { isImageUrl } from "./image";
import { newId, type AttachedImage, type Conversation, type Message } from "./store";

type Role = Message["role"];
const roles: Role[] = ["user", "assistant", "tool"];
const headings: Record<Role, string> = { user: "User", assistant: "Assistant", tool: "Tool" };

export function toJson(conversations: Conversation[]): string {
  return JSON.stringify(conversations.length === 1 ? conversations[0] : { conversations }, null, 2);
}

// A line of a message that looks like a mark gets a backslash.
const mark = /^(\\*)<!-- graft:(?=user|assistant|tool)/gm;

export function toMarkdown(conversation: Conversation, title: string): string {
  const parts = [`# ${title}`];
  for (const { role, content, files = [], images = [], reasoning, calls = [], model } of conversation.messages) {
    const heading = `## ${headings[role]}${model ? ` (${model})` : ""}`;
    const blocks = files.map(({ name, text }) => `**${name}**\n\n~~~~\n${text}\n~~~~`);
    blocks.unshift(...images.map(({ name }) => `*Image: ${name}*`));
    if (reasoning) blocks.push(`> ${reasoning.trim().replace(/\n/g, "\n> ")}`);
    if (content) blocks.push(content);
    for (const call of calls) blocks.push(`\`${call.name}\`\n\n~~~~json\n${call.arguments}\n~~~~`);
    parts.push(`<!-- graft:${role} -->\n${heading}\n\n${blocks.join("\n\n").replace(mark, "$1\\<!-- graft:")}`);
  }
  return `${parts.join("\n\n")}\n`;
}

// undefined: not a file of `toMarkdown`.
function fromMarkdown(text: string): Conversation | undefined {
  const parts = text.replace(/\r\n/g, "\n").split(/^<!-- graft:(user|assistant|tool) -->\n## .*\n/m);
  if (parts.length < 3) return undefined;
  const messages: Message[] = [];
  for (let i = 1; i + 1 < parts.length; i += 2) {
    const role = parts[i] as Role;
    const content = parts[i + 1]!.replace(/^(\\*)\\<!-- graft:/gm, "$1<!-- graft:").trim();
    messages.push({ id: newId(), role, content, ...(role === "assistant" ? { end: "stop" as const } : {}) });
  }
  const title = /^# (.*)$/m.exec(parts[0]!)?.[1] ?? "";
  return { id: newId(), title, model: "", settings: {}, messages, updated: Date.now() };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

// The text and the images of a list of parts in OpenAI's format.
function partsOf(list: unknown[]): Pick<Message, "content" | "images"> {
  const parts = list.filter(isObject);
  const content = parts.filter(({ type }) => type === "text").map(({ text }) => textOf(text)).join("\n");
  const urls = parts.map(({ image_url }) => (isObject(image_url) ? textOf(image_url.url) : "")).filter(isImageUrl);
  return { content, ...(urls.length > 0 ? { images: urls.map((url, i) => ({ name: `image ${i + 1}`, url })) } : {}) };
}

function imageOf({ name, url }: Record<string, unknown>): AttachedImage {
  return { name: textOf(name), url: isImageUrl(textOf(url)) ? textOf(url) : "" };
}

// Only the fields that the page knows, with the types that it expects.
function messageOf(value: unknown): Message | undefined {
  if (!isObject(value) || !roles.includes(value.role as Role)) return undefined;
  const known = value as unknown as Message;
  const out: Message = { id: textOf(value.id) || newId(), role: known.role, content: textOf(value.content) };
  if (out.role === "user" && Array.isArray(value.content)) Object.assign(out, partsOf(value.content));
  for (const name of ["reasoning", "model", "error", "callId"] as const) if (typeof value[name] === "string") out[name] = value[name];
  if (out.role === "assistant") out.end = ["stop", "length", "stopped", "lost", "error"].includes(textOf(value.end)) ? known.end : "stop";
  if (isObject(value.stats) && typeof value.stats.outputTokens === "number") out.stats = known.stats;
  if (Array.isArray(value.files)) out.files = value.files.filter(isObject).map(({ name, text }) => ({ name: textOf(name), text: textOf(text) }));
  if (out.role === "user" && Array.isArray(value.images)) out.images = value.images.filter(isObject).map(imageOf);
  if (Array.isArray(value.calls))
    out.calls = value.calls.filter(isObject).map((call) => ({ id: textOf(call.id), name: textOf(call.name), arguments: textOf(call.arguments) }));
  if (Array.isArray(value.versions) && typeof value.version === "number") {
    out.versions = value.versions.filter(Array.isArray).map(messagesOf);
    out.version = value.version;
    const isWhole = out.versions.length === value.versions.length && out.versions.every((path, i) => (path.length === 0) === (i === out.version));
    if (!isWhole) {
      delete out.versions;
      delete out.version;
    }
  }
  return out;
}

function messagesOf(list: unknown[]): Message[] {
  return list.map(messageOf).filter((message) => message !== undefined);
}

// Settings come from the same page; the server checks their values.
function conversationOf(value: unknown): Conversation | undefined {
  const list = Array.isArray(value) ? value : isObject(value) ? value.messages : undefined;
  if (!Array.isArray(list)) return undefined;
  const from = isObject(value) ? value : {};
  const system = list.find((entry) => isObject(entry) && entry.role === "system") as { content?: unknown } | undefined;
  const settings = isObject(from.settings) ? { ...from.settings } : system ? { system: textOf(system.content) } : {};
  const messages = messagesOf(list);
  if (messages.length === 0) return undefined;
  const updated = typeof from.updated === "number" ? from.updated : Date.now();
  return { id: newId(), title: textOf(from.title), model: textOf(from.model), settings, messages, updated };
}

// The chats of a file: one, a list, a list under "conversations", a list of messages in OpenAI's format, or Markdown.
export function fromFile(text: string): Conversation[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    const chat = fromMarkdown(text);
    return chat ? [chat] : [];
  }
  const list = isObject(value) && Array.isArray(value.conversations) ? value.conversations : Array.isArray(value) && !isMessages(value) ? value : [value];
  return list.map(conversationOf).filter((chat) => chat !== undefined);
}

const isMessages = (list: unknown[]) => isObject(list[0]) && typeof list[0].role === "string";

export function fileName(title: string, extension: string): string {
  return `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "chat"}.${extension}`;
}
