// The list of conversations.

import { download, h, icon, iconButton } from "../dom";
import { pageLink, switches } from "../frame";
import { t } from "../language";
import { titleOf, type Conversation } from "./store";

export interface SidebarActions {
  create(): void;
  open(conversation: Conversation): void;
  rename(conversation: Conversation, title: string): void;
  remove(conversation: Conversation): void;
  rebuild(): void;
  close(): void; // on phones
}

function fileName(title: string): string {
  return `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "chat"}.json`;
}

export class Sidebar {
  private readonly list = h("ul", { class: "chats" });
  readonly node: HTMLElement;

  constructor(private readonly actions: SidebarActions) {
    this.node = h(
      "nav",
      { class: "sidebar", "aria-label": t("chats") },
      h(
        "div",
        { class: "sidebar-top" },
        h("a", { class: "brand", href: "/" }, "graft"),
        iconButton("close", t("closeMenu"), () => actions.close(), { class: "icon-button phone-only" }),
      ),
      h("button", { type: "button", class: "new-chat", onclick: () => actions.create() }, icon("plus"), h("span", {}, t("newChat")), h("kbd", {}, "Ctrl K")),
      this.list,
      h("div", { class: "sidebar-bottom" }, pageLink("/status", "chart", t("status")), switches(() => actions.rebuild())),
    );
  }

  show(conversations: Conversation[], current: Conversation | undefined, isRunning: (conversation: Conversation) => boolean): void {
    if (this.list.querySelector("input")) return; // being renamed
    if (conversations.length === 0) {
      this.list.replaceChildren(h("li", { class: "empty" }, t("noChats")));
      return;
    }
    this.list.replaceChildren(
      ...conversations.map((conversation) => this.row(conversation, conversation === current, isRunning(conversation))),
    );
  }

  private row(conversation: Conversation, isCurrent: boolean, isRunning: boolean): HTMLElement {
    const title = titleOf(conversation, t("untitled"));
    const row = h("li", { class: `chat-row${isCurrent ? " current" : ""}${isRunning ? " running" : ""}` });
    row.append(
      h(
        "button",
        {
          type: "button",
          class: "chat-title",
          title,
          "aria-current": isCurrent ? "true" : undefined,
          onclick: () => this.actions.open(conversation),
          ondblclick: () => this.rename(row, conversation),
        },
        title,
      ),
      h(
        "span",
        { class: "row-actions" },
        iconButton("pencil", t("rename"), () => this.rename(row, conversation)),
        iconButton("download", t("export"), () => download(fileName(title), JSON.stringify(conversation, null, 2))),
        iconButton("trash", t("delete"), () => this.actions.remove(conversation)),
      ),
    );
    return row;
  }

  private rename(row: HTMLElement, conversation: Conversation): void {
    const input = h("input", { value: titleOf(conversation, ""), "aria-label": t("rename"), maxLength: 200 });
    let isOpen = true;
    const end = (keeps: boolean) => {
      if (!isOpen) return;
      isOpen = false;
      const title = input.value.trim();
      input.remove();
      this.actions.rename(conversation, keeps ? title : conversation.title);
    };
    input.addEventListener("blur", () => end(true));
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") end(true);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      end(false);
    });
    row.replaceChildren(input);
    input.select();
  }
}
