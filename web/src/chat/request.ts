// The body of a chat request.

import type { AttachedImage, Conversation, Message, Settings } from "./store";

// A setting that cannot be sent. `param`: the name of the field in the request.
export class SettingError extends Error {
  constructor(
    readonly param: string,
    message: string,
  ) {
    super(message);
  }
}

type Part = { type: "text"; text: string } | { type: "image_url"; image_url: { url: string } };

interface Turn {
  role: "system" | "user" | "assistant" | "tool";
  content: string | Part[];
  tool_calls?: object[];
  tool_call_id?: string;
}

// A file comes before the question, in a fence that is longer than any in the file.
function withFiles({ content, files = [], images = [] }: Message): string {
  const lost = images.filter(({ url }) => !url).map(({ name }) => `[${name}: this image is no longer available]`);
  const parts = files.map(({ name, text }) => {
    const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map((marks) => marks.length));
    const fence = "`".repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...lost, ...parts, content].filter((part) => part !== "").join("\n\n");
}

const imagePart = ({ url }: AttachedImage): Part => ({ type: "image_url", image_url: { url } });

// Text alone, or parts with the images first.
function contentOf(message: Message): string | Part[] {
  const text = withFiles(message);
  const images = (message.images ?? []).filter(({ url }) => url !== "");
  if (images.length === 0) return text;
  return [...images.map(imagePart), ...(text ? [{ type: "text" as const, text }] : [])];
}

// The characters of the text of a message.
export function textLength(content: string | Part[]): number {
  return typeof content === "string" ? content.length : content.reduce((sum, part) => sum + (part.type === "text" ? part.text.length : 0), 0);
}

function turnOf(message: Message): Turn {
  const { role, content, calls, callId } = message;
  if (role === "tool") return { role, content, tool_call_id: callId };
  if (role === "user") return { role, content: contentOf(message) };
  const turn: Turn = { role, content };
  if (calls?.length) turn.tool_calls = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
  return turn;
}

export function parseJson(param: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new SettingError(param, (error as Error).message);
  }
}

// A list of tools in OpenAI's format; a function without the frame around it gets one.
export function toolsOf(text: string): object[] {
  const value = parseJson("tools", text);
  const list = Array.isArray(value) ? value : [value];
  return list.map((tool: unknown) => {
    if (typeof tool !== "object" || tool === null) throw new SettingError("tools", "a tool must be an object");
    if ("function" in tool) return tool;
    if ("name" in tool && typeof tool.name === "string") return { type: "function", function: tool };
    throw new SettingError("tools", "a tool needs a name");
  });
}

function formatOf({ format, schema }: Settings): object | undefined {
  if (format === "json") return { type: "json_object" };
  if (format !== "schema" || !schema?.trim()) return undefined;
  return { type: "json_schema", json_schema: { name: "answer", schema: parseJson("response_format", schema) } };
}

// The conversation without empty answers. Unset settings are not sent. Throws SettingError. With `continues`, the
// last message is an answer that the model goes on with.
export function requestBody(conversation: Conversation, continues = false) {
  const { system, thinking, tools, stop, format, schema, ...sampling } = conversation.settings;
  const messages: Turn[] = conversation.messages
    .filter(({ role, content, calls }) => role !== "assistant" || content !== "" || calls?.length)
    .map(turnOf);
  if (system?.trim()) messages.unshift({ role: "system", content: system });
  return {
    model: conversation.model || undefined,
    messages,
    ...sampling,
    stop: stop?.length ? stop : undefined,
    tools: tools?.trim() ? toolsOf(tools) : undefined,
    response_format: formatOf({ format, schema }),
    chat_template_kwargs: thinking === undefined ? undefined : { enable_thinking: thinking },
    ...(continues ? { continue_final_message: true, add_generation_prompt: false } : {}),
  };
}
