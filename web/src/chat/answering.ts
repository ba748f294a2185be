// Running requests, at most one per conversation. They continue while another conversation is shown.

import { errorText, ServerError, streamChat, type Usage } from "../api";
import { requestBody } from "./request";
import { newId, type Conversation, type Message, type Stats } from "./store";

interface Running {
  controller: AbortController;
  message: Message;
}

class Clock {
  private readonly start = performance.now();
  private first = 0;
  private deltas = 0;

  countDelta(): void {
    if (this.deltas++ === 0) this.first = performance.now();
  }

  stats(usage: Usage | undefined): Stats | undefined {
    if (this.deltas === 0) return undefined;
    return {
      promptTokens: usage?.prompt_tokens,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? undefined,
      outputTokens: usage?.completion_tokens ?? this.deltas,
      isEstimate: !usage,
      firstSeconds: (this.first - this.start) / 1000,
      seconds: (performance.now() - this.first) / 1000,
    };
  }
}

export class Answering {
  private readonly running = new Map<string, Running>();

  // `changed`: the answer grew or finished. `unauthorized`: the server requires an API key.
  constructor(
    private readonly changed: (conversation: Conversation, message: Message) => void,
    private readonly unauthorized: () => void,
  ) {}

  isRunning(conversation: Conversation | undefined): boolean {
    return conversation !== undefined && this.running.has(conversation.id);
  }

  stop(conversation: Conversation | undefined): void {
    if (conversation) this.running.get(conversation.id)?.controller.abort();
  }

  // Requests an answer to the last question. The answer's message is added immediately and grows.
  async start(conversation: Conversation): Promise<void> {
    this.stop(conversation);
    const controller = new AbortController();
    const message: Message = { id: newId(), role: "assistant", content: "", model: conversation.model };
    const body = requestBody(conversation);
    conversation.messages.push(message);
    conversation.updated = Date.now();
    const running = { controller, message };
    this.running.set(conversation.id, running);
    this.changed(conversation, message);

    const clock = new Clock();
    let usage: Usage | undefined;
    let finish: string | undefined;
    try {
      for await (const delta of streamChat(body, controller.signal)) {
        if (delta.content || delta.reasoning) clock.countDelta();
        message.content += delta.content;
        if (delta.reasoning) message.reasoning = (message.reasoning ?? "") + delta.reasoning;
        usage = delta.usage ?? usage;
        finish = delta.finish ?? finish;
        this.changed(conversation, message);
      }
      message.end = finish === undefined ? "lost" : finish === "length" ? "length" : "stop";
    } catch (error) {
      this.fail(message, error, controller.signal.aborted);
    }
    message.stats = clock.stats(usage);
    if (this.running.get(conversation.id) === running) this.running.delete(conversation.id);
    this.changed(conversation, message);
  }

  private fail(message: Message, error: unknown, isStopped: boolean): void {
    if (isStopped) {
      message.end = "stopped";
    } else if (!(error instanceof ServerError) && (message.content || message.reasoning)) {
      message.end = "lost";
    } else {
      message.end = "error";
      message.error = errorText(error);
      if (error instanceof ServerError && error.status === 401) this.unauthorized();
    }
  }
}
