// The body of a chat request.

import type { Conversation } from "./store";

interface Turn {
  role: "system" | "user" | "assistant";
  content: string;
}

// The conversation without empty answers. Unset settings are not sent.
export function requestBody(conversation: Conversation) {
  const { system, ...sampling } = conversation.settings;
  const messages: Turn[] = conversation.messages
    .filter(({ role, content }) => role === "user" || content !== "")
    .map(({ role, content }) => ({ role, content }));
  if (system?.trim()) messages.unshift({ role: "system", content: system });
  return { model: conversation.model || undefined, messages, ...sampling };
}
