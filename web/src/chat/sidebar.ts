// The list of conversations, with search.

import { download, h, icon, iconButton } from "../dom";
import { pageLink, switches } from "../frame";
import { t } from "../language";
import { openMenu } from "../menu";
import { search } from "./search";
import { titleOf, type Conversation } from "./store";
import { fileName, toJson, toMarkdown } from "./transfer";

export interface SidebarActions {
  create(): void;
  open(conversation: Conversation, message?: string): void; // `message`: the id of one to scroll to
  rename(conversation: Conversation, title: string): void;
  remove(conversation: Conversation): void;
  load(files: FileList): void; // import
  rebuild(): void;
  close(): void; // on phones
}

export class Sidebar {
  private readonly list = h("ul", { class: "chats", "aria-label": t("chats") });
  private readonly query = h("input", { type: "search", id: "search", placeholder: t("search"), "aria-label": t("search") });
  private readonly picker = h("input", { type: "file", id: "import", accept: ".json,.md", multiple: true, hidden: true });
  private shown: Parameters<Sidebar["show"]> | undefined;
  readonly node: HTMLElement;

  constructor(private readonly actions: SidebarActions) {
    const more: HTMLButtonElement = iconButton("more", t("allChats"), () => this.menuOfAll(more), { id: "all-chats", "aria-haspopup": "menu" });
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
      h("div", { class: "search-row" }, this.query, more, this.picker),
      this.list,
      h("div", { class: "sidebar-bottom" }, pageLink("/status", "chart", t("status")), switches(() => actions.rebuild())),
    );
    this.query.addEventListener("input", () => this.draw());
    this.query.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.query.value = "";
      this.draw();
    });
    this.picker.addEventListener("change", () => {
      if (this.picker.files?.length) actions.load(this.picker.files);
      this.picker.value = "";
    });
  }

  show(conversations: Conversation[], current: Conversation | undefined, isRunning: (conversation: Conversation) => boolean): void {
    this.shown = [conversations, current, isRunning];
    this.draw();
  }

  private draw(): void {
    if (!this.shown || this.list.querySelector("input")) return; // being renamed
    const [conversations, current, isRunning] = this.shown;
    const query = this.query.value.trim();
    const rows = query === "" ? conversations.map((conversation) => ({ conversation, excerpt: "", message: undefined })) : search(conversations, query);
    this.list.replaceChildren(
      ...rows.map(({ conversation, excerpt, message }) => this.row(conversation, conversation === current, isRunning(conversation), excerpt, message)),
    );
    if (rows.length === 0) this.list.append(h("li", { class: "empty" }, t(query === "" ? "noChats" : "nothingFound")));
  }

  private menuOfAll(anchor: HTMLElement): void {
    const conversations = this.shown?.[0] ?? [];
    openMenu(anchor, [
      { label: t("import"), icon: "upload", run: () => this.picker.click() },
      ...(conversations.length > 0 ? [{ label: t("exportAll"), icon: "download" as const, run: () => download("chats.json", toJson(conversations)) }] : []),
    ]);
  }

  private menuOfRow(anchor: HTMLElement, row: HTMLElement, conversation: Conversation): void {
    const title = titleOf(conversation, t("untitled"));
    openMenu(anchor, [
      { label: t("rename"), icon: "pencil", run: () => this.rename(row, conversation) },
      { label: t("exportJson"), icon: "download", run: () => download(fileName(title, "json"), toJson([conversation])) },
      { label: t("exportMarkdown"), icon: "download", run: () => download(fileName(title, "md"), toMarkdown(conversation, title)) },
      { label: t("delete"), icon: "trash", run: () => this.actions.remove(conversation) },
    ]);
  }

  private row(conversation: Conversation, isCurrent: boolean, isRunning: boolean, excerpt: string, message?: string): HTMLElement {
    const title = titleOf(conversation, t("untitled"));
    const row = h("li", { class: `chat-row${isCurrent ? " current" : ""}${isRunning ? " running" : ""}${excerpt ? " found" : ""}` });
    const more: HTMLButtonElement = iconButton("more", `${t("actions")}: ${title}`, () => this.menuOfRow(more, row, conversation), { "aria-haspopup": "menu" });
    row.append(
      h(
        "button",
        {
          type: "button",
          class: "chat-title",
          title,
          "aria-current": isCurrent ? "true" : undefined,
          onclick: () => this.actions.open(conversation, message),
          ondblclick: () => this.rename(row, conversation),
        },
        title,
        excerpt ? h("small", {}, excerpt) : undefined,
      ),
      h("span", { class: "row-actions" }, more),
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
