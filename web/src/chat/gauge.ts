// How much of the context the chat and the draft take. The server counts the tokens of the whole prompt.

import { post, ServerError } from "../api";
import { h } from "../dom";
import { t } from "../language";
import type { ModelRow } from "../models";
import { requestBody, SettingError, textLength } from "./request";
import { questionOf, type Conversation, type Draft } from "./store";

const pauseMs = 400; // after the last change
const imagePauseMs = 2000; // where images are sent to be counted
const lettersPerToken = 4; // for models that are not loaded, of which nothing is counted

const isEmptyDraft = ({ text, files, images }: Draft) => !text.trim() && files.length === 0 && images.length === 0;

export class Gauge {
  private readonly bar = h("meter", { min: 0, max: 1, high: 0.8, low: 0.5, optimum: 0, "aria-label": t("contextUse") });
  private readonly text = h("span", {});
  private timer = 0;
  private request: AbortController | undefined;
  readonly node = h("div", { class: "gauge", hidden: true }, this.bar, this.text);

  // Counts after a pause; a newer call replaces this one.
  update(conversation: Conversation, draft: Draft, model: ModelRow | undefined): void {
    clearTimeout(this.timer);
    this.request?.abort();
    const isEmpty = conversation.messages.length === 0 && isEmptyDraft(draft);
    if (isEmpty || !model) {
      this.node.hidden = true;
      return;
    }
    const asked = [...conversation.messages, ...(isEmptyDraft(draft) ? [] : [questionOf(draft)])];
    const hasImages = asked.some(({ images = [] }) => images.some(({ url }) => url !== ""));
    this.timer = window.setTimeout(() => void this.count({ ...conversation, messages: asked }, hasImages, model), hasImages ? imagePauseMs : pauseMs);
  }

  // Images are no tokens of a vocabulary: /tokenize refuses them.
  private async count(conversation: Conversation, hasImages: boolean, model: ModelRow): Promise<void> {
    this.request = new AbortController();
    try {
      const { messages, tools, chat_template_kwargs } = requestBody(conversation);
      if (!model.isLoaded) {
        const letters = messages.reduce((sum, { content }) => sum + textLength(content), 0);
        this.show(Math.ceil(letters / lettersPerToken), model.context, true);
        return;
      }
      const path = hasImages ? "/v1/chat/completions/input_tokens" : "/tokenize";
      const response = await post(path, { model: conversation.model, messages, tools, chat_template_kwargs }, this.request.signal);
      const { count, input_tokens, max_model_len } = (await response.json()) as { count?: number; input_tokens?: number; max_model_len?: number };
      this.show(count ?? input_tokens ?? 0, max_model_len ?? model.context, false);
    } catch (error) {
      if (error instanceof ServerError && error.status === 400 && error.message.includes("context")) this.refuse(error.message);
      else if (error instanceof ServerError || error instanceof SettingError) this.node.hidden = true;
    }
  }

  private show(count: number, max: number, isEstimate: boolean): void {
    this.node.hidden = false;
    this.bar.value = Math.min(1, count / max);
    this.node.classList.toggle("full", count >= max);
    this.text.textContent = t(isEstimate ? "contextAbout" : "contextUsed", { count: count.toLocaleString(), max: max.toLocaleString() });
    this.node.title = t("contextUse");
  }

  // A prompt that is longer than the context is not counted: the message has the numbers.
  private refuse(message: string): void {
    this.node.hidden = false;
    this.bar.value = 1;
    this.node.classList.add("full");
    this.text.textContent = t("contextFull");
    this.node.title = message;
  }
}
