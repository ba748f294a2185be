// Views of single messages. An answer's view is updated while it grows; finished blocks are not redrawn.

import { copyText, h, icon, iconButton } from "../dom";
import { t } from "../language";
import { codeText, MarkdownView, type Block } from "../markdown";
import type { Message, Stats } from "./store";

export interface MessageActions {
  edit(message: Message, text: string): void;
  regenerate(message: Message): void;
}

function copyButton(label: string, text: () => string, showsLabel: boolean): HTMLButtonElement {
  const name = h("span", {}, showsLabel ? t("copy") : "");
  const button = h("button", { type: "button", class: showsLabel ? "copy-code" : "icon-button", title: label, "aria-label": label }, icon("copy"), name);
  button.addEventListener("click", async () => {
    await copyText(text());
    button.replaceChild(icon("check"), button.firstChild!);
    if (showsLabel) name.textContent = t("copied");
    setTimeout(() => {
      button.replaceChild(icon("copy"), button.firstChild!);
      if (showsLabel) name.textContent = t("copy");
    }, 1500);
  });
  return button;
}

// A code block with its language and a copy button above it.
function withCodeBar(node: HTMLElement, block: Block): HTMLElement {
  if (block.kind !== "code") return node;
  const bar = h("div", { class: "code-bar" }, h("span", {}, node.dataset.lang || ""), copyButton(t("copyCode"), () => codeText(block), true));
  return h("div", { class: "code" }, bar, node);
}

function number(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 });
}

function statsText(stats: Stats): string[] {
  const parts: string[] = [];
  if (stats.outputTokens > 1 && stats.seconds > 0) parts.push(t("rate", { rate: number((stats.outputTokens - 1) / stats.seconds) }));
  parts.push(t(stats.isEstimate ? "someTokens" : "tokens", { count: number(stats.outputTokens) }));
  if (stats.promptTokens !== undefined)
    parts.push(t("prompt", { count: number(stats.promptTokens), cached: number(stats.cachedTokens ?? 0) }));
  parts.push(t("firstToken", { seconds: stats.firstSeconds.toLocaleString(undefined, { maximumFractionDigits: 2 }) }));
  return parts;
}

export class UserView {
  readonly node = h("article", { class: "message user", "aria-label": t("you") });

  constructor(
    readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.show();
  }

  update(): void {}

  private show(): void {
    this.node.replaceChildren(
      h("div", { class: "bubble" }, this.message.content),
      h("div", { class: "actions" }, copyButton(t("copy"), () => this.message.content, false), iconButton("pencil", t("edit"), () => this.edit())),
    );
  }

  private edit(): void {
    const area = h("textarea", { class: "edit-area", value: this.message.content, "aria-label": t("edit") });
    const save = () => {
      const text = area.value.trim();
      if (text) this.actions.edit(this.message, text);
    };
    const resize = () => {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight + 2}px`;
    };
    area.addEventListener("input", resize);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.show();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      }
    });
    this.node.replaceChildren(
      h(
        "div",
        { class: "editor" },
        area,
        h(
          "div",
          { class: "editor-buttons" },
          h("button", { type: "button", onclick: () => this.show() }, t("cancel")),
          h("button", { type: "button", class: "primary", onclick: save }, t("save")),
        ),
      ),
    );
    resize();
    area.focus();
  }
}

export class AnswerView {
  private readonly dots = h("div", { class: "dots", role: "status", "aria-label": t("waiting") }, h("i"), h("i"), h("i"));
  private readonly thinking = h("span", {}, t("reasoning"));
  private readonly thought = h("div", { class: "markdown" });
  private readonly reasoning = h("details", { class: "reasoning", hidden: true }, h("summary", {}, icon("chevron"), this.thinking), this.thought);
  private readonly body = h("div", { class: "markdown" });
  private readonly note = h("div", { class: "note", hidden: true });
  private readonly footer = h("div", { class: "actions" });
  private readonly text = new MarkdownView(this.body, withCodeBar);
  private readonly thoughtText = new MarkdownView(this.thought, withCodeBar);
  readonly node = h("article", { class: "message answer" }, this.reasoning, this.body, this.dots, this.note, this.footer);

  constructor(
    readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.node.setAttribute("aria-label", message.model ?? "");
    // Collapsed reasoning is not rendered while it grows.
    this.reasoning.addEventListener("toggle", () => this.update());
    this.update();
  }

  update(): void {
    const { message } = this;
    const isRunning = message.end === undefined;
    this.dots.hidden = !isRunning || message.content !== "" || (message.reasoning ?? "") !== "";
    this.reasoning.hidden = !message.reasoning;
    if (message.reasoning) {
      const isThinking = isRunning && message.content === "";
      this.thinking.textContent = t(isThinking ? "reasoningNow" : "reasoning");
      this.reasoning.classList.toggle("busy", isThinking);
      if (this.reasoning.open) this.thoughtText.show(message.reasoning);
    }
    this.text.show(message.content);
    this.node.setAttribute("aria-busy", String(isRunning));
    this.node.classList.toggle("running", isRunning);
    if (!isRunning && this.footer.childNodes.length === 0) this.finish();
  }

  private finish(): void {
    const { message } = this;
    const notes = { length: t("endLength"), stopped: t("endStopped"), lost: t("endLost"), error: message.error ?? "", stop: "" };
    const note = notes[message.end!];
    this.note.hidden = !note;
    this.note.classList.toggle("bad", message.end === "error" || message.end === "lost");
    this.note.replaceChildren(h("span", {}, note));
    if (message.end === "error" || message.end === "lost")
      this.note.append(h("button", { type: "button", onclick: () => this.actions.regenerate(message) }, t("retry")));
    if (message.content) this.footer.append(copyButton(t("copy"), () => message.content, false));
    this.footer.append(
      iconButton("again", t("regenerate"), () => this.actions.regenerate(message)),
    );
    if (message.stats) this.footer.append(h("span", { class: "stats" }, ...statsText(message.stats).map((text) => h("span", {}, text))));
  }
}
