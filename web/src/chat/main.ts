// The chat page.

import "../style/base.css";
import "../style/markdown.css";
import "../style/chat.css";

import { apiKey, errorText, listModels, ServerError } from "../api";
import { h, icon, iconButton, toast } from "../dom";
import { applyLanguage, t } from "../language";
import { local } from "../local";
import { applyTheme } from "../theme";
import { Answering } from "./answering";
import { Composer } from "./composer";
import { AnswerView, UserView } from "./message_view";
import { openSettings } from "./settings";
import { Sidebar } from "./sidebar";
import { newId, Store, titleOf, type Conversation, type Message } from "./store";

class Page {
  private readonly store = new Store();
  private readonly answering = new Answering(
    (conversation, message) => this.grown(conversation, message),
    () => this.settings(true),
  );
  private current: Conversation;
  private models: string[] = [];
  private isUnreachable = false;
  private views: (UserView | AnswerView)[] = [];
  private follows = true; // scroll with new text
  private readonly dirty = new Set<Conversation>();
  private readonly pending = new Set<Message>(); // answers with text that is not drawn yet

  private sidebar!: Sidebar;
  private composer!: Composer;
  private log!: HTMLElement;
  private scroller!: HTMLElement;
  private downButton!: HTMLElement;
  private title!: HTMLElement;
  private chooser!: HTMLSelectElement;
  private root!: HTMLElement;

  constructor() {
    this.current = this.store.find(location.hash.slice(1)) ?? this.store.conversations[0] ?? this.fresh();
    this.build();
    void this.loadModels();
    setInterval(() => this.keep(), 1000);
    addEventListener("pagehide", () => this.keep());
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => {
      const wanted = this.store.find(location.hash.slice(1));
      if (wanted && wanted !== this.current) this.open(wanted);
    });
    addEventListener("focus", () => {
      if (this.isUnreachable) void this.loadModels();
    });
    local.onChange((name) => this.changedElsewhere(name));
  }

  // Builds the whole page, at the start and when the language changes.
  private build(): void {
    const draft = this.composer?.text ?? "";
    const place = this.follows ? undefined : this.scroller?.scrollTop;
    applyLanguage();
    document.title = "graft";
    this.sidebar = new Sidebar({
      create: () => this.create(),
      open: (conversation) => this.open(conversation),
      rename: (conversation, title) => this.rename(conversation, title),
      remove: (conversation) => this.remove(conversation),
      rebuild: () => this.build(),
      close: () => this.menu(false),
    });
    this.composer = new Composer({ send: (text) => this.send(text), stop: () => this.answering.stop(this.current) });
    this.log = h("div", { class: "log", role: "log" });
    this.scroller = h("main", { class: "scroller", tabIndex: -1 }, this.log);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.downButton = iconButton("down", t("scrollDown"), () => this.follow(), { class: "icon-button to-end", hidden: true });
    this.title = h("h1", {});
    this.chooser = h("select", { id: "model", "aria-label": t("model"), title: t("model") });
    this.chooser.addEventListener("change", () => this.choose(this.chooser.value));
    const header = h(
      "header",
      { class: "top" },
      iconButton("menu", t("openMenu"), () => this.menu(true), { class: "icon-button phone-only", id: "menu" }),
      h("div", { class: "chooser" }, this.chooser, icon("chevron")),
      this.title,
      iconButton("plus", t("newChat"), () => this.create(), { class: "icon-button phone-only" }),
      iconButton("sliders", t("settings"), () => this.settings(false), { id: "settings" }),
    );
    const shade = h("div", { class: "shade", onclick: () => this.menu(false) });
    const pane = h("div", { class: "pane" }, header, this.scroller, h("div", { class: "bottom" }, this.downButton, this.composer.node));
    this.root = h("div", { class: "page" }, this.sidebar.node, shade, pane);
    document.body.replaceChildren(this.root);
    this.composer.text = draft;
    this.views = [];
    this.showModels();
    this.showConversation();
    if (place !== undefined) this.scroller.scrollTop = place;
  }

  private fresh(): Conversation {
    const last = this.current ?? this.store.conversations[0];
    return {
      id: newId(),
      title: "",
      model: last?.model ?? local.get("model") ?? "",
      settings: { ...last?.settings },
      messages: [],
      updated: Date.now(),
    };
  }

  private async loadModels(): Promise<void> {
    try {
      this.models = await listModels();
      this.isUnreachable = false;
    } catch (error) {
      this.isUnreachable = !(error instanceof ServerError);
      if (error instanceof ServerError && error.status === 401) this.settings(true);
      else toast(errorText(error));
    }
    this.showModels();
  }

  private showModels(): void {
    const { current, models } = this;
    if (models.length > 0 && !models.includes(current.model)) current.model = models[0]!;
    const names = models.length > 0 ? models : [current.model || t("noModels")];
    this.chooser.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    this.chooser.value = current.model || names[0]!;
  }

  private choose(model: string): void {
    this.current.model = model;
    local.set("model", model);
    this.touch(this.current);
  }

  private create(): void {
    this.menu(false);
    if (this.current.messages.length > 0) {
      this.current = this.fresh();
      this.showModels();
      this.showConversation();
    }
    this.composer.focus();
  }

  private open(conversation: Conversation): void {
    this.menu(false);
    if (conversation === this.current) return;
    this.current = conversation;
    this.showModels();
    this.showConversation();
  }

  private rename(conversation: Conversation, title: string): void {
    conversation.title = title;
    this.touch(conversation);
    this.showFrame();
  }

  private remove(conversation: Conversation): void {
    this.answering.stop(conversation);
    this.dirty.delete(conversation);
    this.store.remove(conversation);
    if (conversation === this.current) {
      this.current = this.store.conversations[0] ?? this.fresh();
      this.showModels();
      this.showConversation();
    }
    this.showFrame();
    const back = () => {
      this.touch(conversation);
      this.keep();
      this.open(conversation);
      this.showFrame();
    };
    toast(t("deleted", { title: titleOf(conversation, t("untitled")) }), { label: t("undo"), run: back });
  }

  // Marks the conversation to be saved within a second or when the page closes.
  private touch(conversation: Conversation): void {
    if (conversation.messages.length > 0) this.dirty.add(conversation);
  }

  private keep(): void {
    for (const conversation of this.dirty) if (!this.store.save(conversation)) toast(t("storageFull"));
    this.dirty.clear();
  }

  private changedElsewhere(name: string): void {
    const id = name.replace(/^chat\./, "");
    const known = this.store.find(id);
    if (this.answering.isRunning(known)) return;
    this.store.reload(name);
    if (id === this.current.id) {
      this.current = this.store.find(id) ?? this.store.conversations[0] ?? this.fresh();
      this.showConversation();
    }
    this.showFrame();
  }

  private send(text: string): void {
    this.current.messages.push({ id: newId(), role: "user", content: text });
    this.answer();
  }

  private edit(message: Message, text: string): void {
    this.cut(message);
    this.send(text);
  }

  private regenerate(message: Message): void {
    this.cut(message);
    this.answer();
  }

  // Removes the message and all later ones.
  private cut(message: Message): void {
    this.answering.stop(this.current);
    const at = this.current.messages.indexOf(message);
    if (at >= 0) this.current.messages.length = at;
  }

  private answer(): void {
    this.follows = true;
    void this.answering.start(this.current);
    this.touch(this.current);
    this.keep();
    this.showConversation();
  }

  // Batches updates: at most one redraw per animation frame.
  private grown(conversation: Conversation, message: Message): void {
    if (this.store.find(conversation.id)) this.touch(conversation); // else it was deleted
    if (message.end !== undefined) this.showFrame();
    if (conversation !== this.current || this.pending.has(message)) return;
    this.pending.add(message);
    const draw = () => {
      if (!this.pending.delete(message)) return;
      this.views.find((view) => view.message === message)?.update();
      if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    };
    requestAnimationFrame(draw);
    setTimeout(draw, 250); // hidden windows get no frames
  }

  private showConversation(): void {
    history.replaceState(null, "", this.current.messages.length > 0 ? `#${this.current.id}` : location.pathname);
    const actions = {
      edit: (message: Message, text: string) => this.edit(message, text),
      regenerate: (message: Message) => this.regenerate(message),
    };
    const old = new Map(this.views.map((view) => [view.message, view]));
    this.views = this.current.messages.map(
      (message) => old.get(message) ?? (message.role === "user" ? new UserView(message, actions) : new AnswerView(message, actions)),
    );
    // Unchanged nodes stay in the DOM: no flicker, and selections survive.
    const nodes = this.views.length > 0 ? this.views.map((view) => view.node) : [this.greeting()];
    let same = 0;
    while (same < nodes.length && this.log.childNodes[same] === nodes[same]) ++same;
    while (this.log.childNodes.length > same) this.log.lastChild!.remove();
    this.log.append(...nodes.slice(same));
    this.showFrame();
    this.follow();
    this.composer.focus();
  }

  private showFrame(): void {
    const title = titleOf(this.current, "");
    this.title.textContent = title;
    document.title = title ? `${title} · graft` : "graft";
    const isRunning = (conversation: Conversation) => this.answering.isRunning(conversation);
    this.sidebar.show(this.store.conversations, this.current, isRunning);
    this.composer.show(isRunning(this.current));
  }

  private greeting(): HTMLElement {
    const suggestion = (text: string) => h("button", { type: "button", onclick: () => this.send(text) }, text);
    return h(
      "div",
      { class: "greeting" },
      h("h2", {}, t("greeting")),
      h("p", {}, t("greetingHint")),
      h("div", { class: "suggestions" }, ...[t("suggestion1"), t("suggestion2"), t("suggestion3")].map(suggestion)),
    );
  }

  private settings(wantsKey: boolean): void {
    const conversation = this.current;
    const key = apiKey.get();
    openSettings(conversation.settings, {
      wantsKey,
      changed: () => this.touch(conversation),
      closed: () => {
        if (apiKey.get() !== key) void this.loadModels();
        this.composer.focus();
      },
    });
  }

  private menu(isOpen: boolean): void {
    this.root.classList.toggle("menu-open", isOpen);
  }

  private scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.follows = scrollHeight - scrollTop - clientHeight < 40;
    this.downButton.hidden = this.follows;
  }

  private follow(): void {
    this.follows = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.downButton.hidden = true;
  }

  private key(event: KeyboardEvent): void {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.create();
    } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      this.answering.stop(this.current);
      this.menu(false);
    }
  }
}

applyTheme();
new Page();
