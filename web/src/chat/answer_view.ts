// The view of an answer. It is updated while the answer grows; finished blocks are not redrawn.

import { h, icon, iconButton } from "../dom";
import { t } from "../language";
import { codeText, MarkdownView, type Block } from "../markdown";
import { countText } from "../units";
import { canRetry } from "./answering";
import { callView, resultForm, splitCalls, withJsonBlock } from "./calls";
import { copyButton } from "./copy_button";
import { versionSwitch, type MessageActions, type MessageView } from "./message_view";
import { isSetting } from "./settings";
import type { Message, Stats } from "./store";

// A code block with its language and a copy button above it. Wide blocks can be scrolled with the keyboard.
function decorated(node: HTMLElement, block: Block): HTMLElement {
  if (block.kind === "table") node.tabIndex = 0;
  if (block.kind !== "code") return node;
  node.tabIndex = 0;
  const bar = h("div", { class: "code-bar" }, h("span", {}, node.dataset.lang || ""), copyButton(t("copyCode"), () => codeText(block), true));
  return h("div", { class: "code" }, bar, node);
}

function statsText(stats: Stats): string[] {
  const parts: string[] = [];
  if (stats.outputTokens > 1) parts.push(t("rate", { rate: countText(rateOf(stats)) }));
  parts.push(t(stats.isEstimate ? "someTokens" : "tokens", { count: countText(stats.outputTokens) }));
  if (stats.promptTokens !== undefined)
    parts.push(t("prompt", { count: countText(stats.promptTokens), cached: countText(stats.cachedTokens ?? 0) }));
  parts.push(t("firstToken", { seconds: stats.firstSeconds.toLocaleString(undefined, { maximumFractionDigits: 2 }) }));
  return parts;
}

// Tokens per second after the first token. A short answer arrives at once: then the wait for it counts too.
export function rateOf({ outputTokens, seconds, firstSeconds }: Stats): number {
  const isMeasured = seconds >= 0.1;
  return isMeasured ? (outputTokens - 1) / seconds : outputTokens / Math.max(seconds + firstSeconds, 0.001);
}

export class AnswerView implements MessageView {
  private readonly dots = h("div", { class: "dots", role: "status", "aria-label": t("waiting") }, h("i"), h("i"), h("i"));
  private readonly thinking = h("span", {}, t("reasoning"));
  private readonly thought = h("div", { class: "markdown" });
  private readonly reasoning = h("details", { class: "reasoning", hidden: true }, h("summary", {}, icon("chevron"), this.thinking), this.thought);
  private readonly body = h("div", { class: "markdown" });
  private readonly calls = h("div", { class: "calls" });
  private readonly form = h("div", {});
  private readonly note = h("div", { class: "note", hidden: true });
  private readonly footer = h("div", { class: "actions" });
  private readonly text = new MarkdownView(this.body, decorated);
  private readonly thoughtText = new MarkdownView(this.thought, decorated);
  private isLast = false;
  readonly node = h("article", { class: "message answer" }, this.reasoning, this.body, this.calls, this.form, this.dots, this.note, this.footer);

  constructor(
    readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.node.setAttribute("aria-label", message.model || t("answer"));
    // Collapsed reasoning is not rendered while it grows.
    this.reasoning.addEventListener("toggle", () => this.update());
    this.update();
  }

  update(): void {
    const { message } = this;
    const isRunning = message.end === undefined;
    const { text, calls: written } = splitCalls(message.content);
    const calls = [...(message.calls ?? []), ...written];
    this.dots.hidden = !isRunning || message.content !== "" || (message.reasoning ?? "") !== "" || calls.length > 0;
    this.reasoning.hidden = !message.reasoning;
    if (message.reasoning) {
      const isThinking = isRunning && message.content === "" && calls.length === 0;
      this.thinking.textContent = t(isThinking ? "reasoningNow" : "reasoning");
      this.reasoning.classList.toggle("busy", isThinking);
      if (this.reasoning.open) this.thoughtText.show(message.reasoning);
    }
    this.text.show(isRunning ? text : withJsonBlock(text));
    if (this.calls.childNodes.length < calls.length || !isRunning) this.showCalls(calls.length);
    this.node.setAttribute("aria-busy", String(isRunning));
    this.node.classList.toggle("running", isRunning);
    if (isRunning) this.footer.replaceChildren();
    this.note.hidden ||= isRunning;
    if (!isRunning && this.footer.childNodes.length === 0) this.finish();
  }

  place(isLast: boolean): void {
    this.isLast = isLast;
    this.showForm();
    if (this.message.end !== undefined) this.showNote();
  }

  // While the arguments grow only the names are shown, so that an opened call is not closed again.
  private showCalls(count: number): void {
    if (this.calls.dataset.count === `${count} ${this.message.end}`) return;
    this.calls.dataset.count = `${count} ${this.message.end}`;
    const { calls: written } = splitCalls(this.message.content);
    this.calls.replaceChildren(...[...(this.message.calls ?? []), ...written].map(callView));
  }

  private showForm(): void {
    const { calls = [], end } = this.message;
    const isOpen = this.isLast && end === "stop" && calls.length > 0;
    if (isOpen === this.form.childNodes.length > 0) return;
    this.form.replaceChildren(...(isOpen ? [resultForm(calls, (results) => this.actions.reply(this.message, results))] : []));
  }

  private finish(): void {
    const { message } = this;
    this.showNote();
    this.showForm();
    this.footer.append(...versionSwitch(message, this.actions));
    if (message.content) this.footer.append(copyButton(t("copy"), () => message.content, false));
    this.footer.append(iconButton("again", t("regenerate"), () => this.actions.regenerate(message)));
    if (message.stats) this.footer.append(h("span", { class: "stats" }, ...statsText(message.stats).map((text) => h("span", {}, text))));
  }

  private showNote(): void {
    const { message } = this;
    const notes = { length: t("endLength"), stopped: t("endStopped"), lost: t("endLost"), error: message.error ?? "", stop: "" };
    const note = notes[message.end!];
    const isBad = message.end === "error" || message.end === "lost";
    this.note.hidden = !note;
    this.note.classList.toggle("bad", isBad);
    this.note.replaceChildren(h("span", {}, note), ...this.remedies());
  }

  // What can help: only that is offered.
  private remedies(): HTMLElement[] {
    const { message, actions } = this;
    const button = (label: string, run: () => void) => h("button", { type: "button", onclick: run }, label);
    const out: HTMLElement[] = [];
    const isCut = message.end === "length" || message.end === "stopped" || message.end === "lost";
    if (isCut && this.isLast && message.content && !message.calls?.length) out.push(button(t("continue"), () => actions.continue(message)));
    if (canRetry(message)) out.push(button(t("retry"), () => actions.regenerate(message)));
    const { status, param } = message.failure ?? {};
    if (status === 401) out.push(button(t("enterKey"), () => actions.key()));
    if (status === 400 && param && isSetting(param)) out.push(button(t("changeSetting"), () => actions.settings(param, message.error ?? "")));
    return out;
  }
}
