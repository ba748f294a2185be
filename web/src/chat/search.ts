// Search over chats: every word must occur in the title or in a message.

import { titleOf, type Conversation } from "./store";
import { everyMessage } from "./versions";

export interface Found {
  conversation: Conversation;
  excerpt: string; // around the first word that a message contains; empty: only the title matches
  message?: string; // its id
}

const around = 40; // characters

function excerptOf(text: string, at: number): string {
  const start = Math.max(0, at - around / 2);
  const cut = text.slice(start, at + around).replace(/\s+/g, " ").trim();
  return `${start > 0 ? "…" : ""}${cut}${at + around < text.length ? "…" : ""}`;
}

export function search(conversations: Conversation[], query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found: Found[] = [];
  for (const conversation of conversations) {
    const missing = new Set(words.filter((word) => !titleOf(conversation, "").toLowerCase().includes(word)));
    let excerpt = "";
    let message: string | undefined;
    for (const { id, content, files = [], images = [] } of everyMessage(conversation.messages)) {
      const text = [content, ...files.map((file) => file.text), ...images.map(({ name }) => name)].join("\n");
      const lower = text.toLowerCase();
      for (const word of words) {
        const at = lower.indexOf(word);
        if (at < 0) continue;
        missing.delete(word);
        if (message !== undefined) continue;
        message = id;
        excerpt = excerptOf(text, at);
      }
    }
    if (missing.size === 0) found.push({ conversation, excerpt, message });
  }
  return found;
}
