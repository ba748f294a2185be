// Running requests, at most one per conversation. They continue while another conversation is shown.

import { errorText, ServerError, streamChat, type CallDelta, type Delta, type Usage } from "../api";
import { t } from "../language";
import { requestBody, SettingError } from "./request";
import { newId, type Conversation, type Message, type Stats, type ToolCall } from "./store";

interface Running {
  controller: AbortController;
  message: Message;
}

class Clock {
  private readonly start = performance.now();
  private first = 0;
  private deltas = 0;

  // `before`: the statistics of the part of the answer that is continued.
  constructor(private readonly before: Stats | undefined) {}

  countDelta(): void {
    if (this.deltas++ === 0) this.first = performance.now();
  }

  stats(usage: Usage | undefined): Stats | undefined {
    const { before } = this;
    if (this.deltas === 0) return before;
    return {
      promptTokens: before?.promptTokens ?? usage?.prompt_tokens,
      cachedTokens: before ? before.cachedTokens : (usage?.prompt_tokens_details?.cached_tokens ?? undefined),
      outputTokens: (usage?.completion_tokens ?? this.deltas) + (before?.outputTokens ?? 0),
      isEstimate: !usage || before?.isEstimate,
      firstSeconds: before?.firstSeconds ?? (this.first - this.start) / 1000,
      seconds: (performance.now() - this.first) / 1000 + (before?.seconds ?? 0),
    };
  }
}

// A call comes in parts: first id and name, then the arguments.
export function addCalls(calls: ToolCall[], deltas: CallDelta[]): void {
  for (const { index, id, function: part } of deltas) {
    const at = index ?? calls.length;
    const call = (calls[at] ??= { id: "", name: "", arguments: "" });
    call.id ||= id ?? "";
    call.name ||= part?.name ?? "";
    call.arguments += part?.arguments ?? "";
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
  start(conversation: Conversation): void {
    const body = () => requestBody(conversation);
    const message: Message = { id: newId(), role: "assistant", content: "", model: conversation.model };
    const sent = this.attempt(body);
    conversation.messages.push(message);
    void this.run(conversation, message, sent);
  }

  // Goes on with the last answer, which was cut.
  continue(conversation: Conversation, message: Message): void {
    const sent = this.attempt(() => requestBody(conversation, true));
    delete message.end;
    delete message.error;
    delete message.failure;
    void this.run(conversation, message, sent);
  }

  private attempt(body: () => object): object | SettingError {
    try {
      return body();
    } catch (error) {
      if (error instanceof SettingError) return error;
      throw error;
    }
  }

  private async run(conversation: Conversation, message: Message, body: object | SettingError): Promise<void> {
    this.stop(conversation);
    const controller = new AbortController();
    conversation.updated = Date.now();
    const running = { controller, message };
    this.running.set(conversation.id, running);
    this.changed(conversation, message);

    const clock = new Clock(message.stats);
    let usage: Usage | undefined;
    let finish: string | undefined;
    try {
      if (body instanceof SettingError) throw body;
      for await (const delta of streamChat(body, controller.signal)) {
        if (delta.content || delta.reasoning || delta.calls.length > 0) clock.countDelta();
        this.add(message, delta);
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

  private add(message: Message, delta: Delta): void {
    message.content += delta.content;
    if (delta.reasoning) message.reasoning = (message.reasoning ?? "") + delta.reasoning;
    if (delta.calls.length > 0) addCalls((message.calls ??= []), delta.calls);
  }

  private fail(message: Message, error: unknown, isStopped: boolean): void {
    if (isStopped) {
      message.end = "stopped";
    } else if (error instanceof SettingError) {
      message.end = "error";
      message.error = t("badSetting", { name: error.param, message: error.message });
      message.failure = { status: 400, param: error.param };
    } else if (!(error instanceof ServerError) && (message.content || message.reasoning)) {
      message.end = "lost";
    } else {
      message.end = "error";
      message.error = errorText(error);
      message.failure = error instanceof ServerError ? { status: error.status, param: error.param } : { status: 0 };
      if (message.failure.status === 401) this.unauthorized();
    }
  }
}

// Whether the same request may succeed later: the server was not reached, was busy or failed.
export function canRetry({ end, failure }: Message): boolean {
  if (end === "lost") return true;
  if (end !== "error") return false;
  const status = failure?.status ?? 0;
  return status === 0 || status === 200 || status === 408 || status === 429 || (status >= 500 && status !== 501);
}
