// The chat page.

import "../style/base.css";
import "../style/markdown.css";
import "../style/chat.css";
import "../style/message.css";
import "../style/images.css";
import "../style/dialog.css";
import "../style/models.css";

import { apiKey, errorText, ServerError } from "../api";
import { h, iconButton, toast } from "../dom";
import { applyLanguage, t } from "../language";
import { local } from "../local";
import { listModels, type ModelRow } from "../models";
import { applyTheme } from "../theme";
import { Answering } from "./answering";
import { Composer } from "./composer";
import { Gauge } from "./gauge";
import { greeting } from "./greeting";
import { LogView } from "./log_view";
import { Picker } from "./picker";
import { openSettings } from "./settings";
import { Sidebar } from "./sidebar";
import { newId, questionOf, Store, titleOf, type AttachedImage, type Conversation, type Draft, type Message } from "./store";
import { fromFile } from "./transfer";
import { attach, cut, drop, renew, switchTo, type Versions } from "./versions";

const firstReloadDelay = 1000; // ms
const maxReloadDelay = 30_000;

class Page {
  private readonly store = new Store();
  private readonly answering = new Answering(
    (conversation, message) => this.grown(conversation, message),
    () => this.settings(true),
  );
  private current: Conversation;
  private models: ModelRow[] = [];
  private isUnreachable = false;
  private reload?: number; // timer
  private reloadDelay = firstReloadDelay;
  private readonly dirty = new Set<Conversation>();

  private sidebar!: Sidebar;
  private composer!: Composer;
  private gauge!: Gauge;
  private log!: LogView;
  private picker!: Picker;
  private title!: HTMLElement;
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
    const draft = this.composer?.draft;
    const place = this.log && !this.log.follows ? this.log.scroller.scrollTop : undefined;
    applyLanguage();
    this.sidebar = new Sidebar({
      create: () => this.create(),
      open: (conversation, message) => this.open(conversation, message),
      rename: (conversation, title) => this.rename(conversation, title),
      remove: (conversation) => this.remove(conversation),
      load: (list) => void this.load(list),
      rebuild: () => this.build(),
      close: () => this.menu(false),
    });
    this.gauge = new Gauge();
    this.composer = new Composer(
      { send: (question) => this.send(question), stop: () => this.answering.stop(this.current), changed: () => this.measure() },
      this.gauge.node,
    );
    this.log = new LogView({
      edit: (message, text, images) => this.edit(message, text, images),
      regenerate: (message) => this.regenerate(message),
      continue: (message) => this.continue(message),
      reply: (message, results) => this.reply(message, results),
      version: (message, wanted) => this.version(message, wanted),
      settings: (param, reason) => this.settings(false, { param, reason }),
      key: () => this.settings(true),
    });
    this.picker = new Picker({
      current: () => this.current.model,
      choose: (model) => this.choose(model),
      changed: (models) => this.showModels(models),
      closed: () => this.composer.focus(),
    });
    this.title = h("h1", {});
    this.mount();
    if (draft) this.composer.draft = draft;
    this.showModels(this.models);
    this.showConversation();
    if (place !== undefined) this.log.scroller.scrollTop = place;
  }

  private mount(): void {
    const header = h(
      "header",
      { class: "top" },
      iconButton("menu", t("openMenu"), () => this.menu(true), { class: "icon-button phone-only", id: "menu" }),
      this.picker.node,
      this.title,
      iconButton("plus", t("newChat"), () => this.create(), { class: "icon-button phone-only" }),
      iconButton("sliders", t("settings"), () => this.settings(false), { id: "settings" }),
    );
    const shade = h("div", { class: "shade", onclick: () => this.menu(false) });
    const bottom = h("div", { class: "bottom" }, this.log.downButton, this.composer.node);
    const pane = h("div", { class: "pane" }, header, this.log.scroller, bottom);
    this.root = h("div", { class: "page" }, this.sidebar.node, shade, pane);
    document.body.replaceChildren(this.root);
  }

  private fresh(): Conversation {
    const last = this.current ?? this.store.conversations[0];
    return { id: newId(), title: "", model: last?.model ?? local.get("model") ?? "", settings: { ...last?.settings }, messages: [], updated: Date.now() };
  }

  private async loadModels(): Promise<void> {
    try {
      this.showModels(await listModels());
      this.isUnreachable = false;
      this.expectLoaded();
    } catch (error) {
      this.isUnreachable = !(error instanceof ServerError);
      if (error instanceof ServerError && error.status === 401) this.settings(true);
      else toast(errorText(error));
    }
  }

  // A server that has just started is still loading: its model has no device yet.
  private expectLoaded(): void {
    clearTimeout(this.reload);
    if (this.models.some(({ isLoaded }) => isLoaded)) {
      this.reloadDelay = firstReloadDelay;
    } else {
      this.reload = window.setTimeout(() => void this.loadModels(), this.reloadDelay);
      this.reloadDelay = Math.min(2 * this.reloadDelay, maxReloadDelay);
    }
  }

  private showModels(models: ModelRow[]): void {
    const { current } = this;
    this.models = models;
    const isKnown = models.some(({ name }) => name === current.model);
    if (models.length > 0 && !isKnown) current.model = models[0]!.name;
    this.picker.show(models);
    if (!isKnown && current.messages.length === 0) this.showConversation();
    this.measure();
  }

  private choose(model: string): void {
    this.current.model = model;
    local.set("model", model);
    this.touch(this.current);
    this.showModels(this.models);
    if (this.current.messages.length === 0) this.showConversation();
  }

  private measure(): void {
    this.composer.check(this.current.model);
    this.gauge.update(this.current, this.composer.draft, this.models.find(({ name }) => name === this.current.model));
  }

  private create(): void {
    this.menu(false);
    if (this.current.messages.length > 0) {
      this.current = this.fresh();
      this.showModels(this.models);
      this.showConversation();
    }
    this.composer.focus();
  }

  private open(conversation: Conversation, message?: string): void {
    this.menu(false);
    if (conversation !== this.current) {
      this.current = conversation;
      this.showModels(this.models);
      this.showConversation();
    }
    if (message) this.log.find(message);
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
      this.showModels(this.models);
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

  private async load(files: FileList): Promise<void> {
    const lists = await Promise.all([...files].map(async (file) => ({ name: file.name, chats: fromFile(await file.text()) })));
    const bad = lists.find(({ chats }) => chats.length === 0);
    const chats = lists.flatMap((list) => list.chats);
    for (const chat of chats) this.touch(chat);
    this.keep();
    this.showFrame();
    if (chats[0]) this.open(chats[0]);
    toast(bad ? t("notChats", { name: bad.name }) : t("imported", { count: chats.length }));
  }

  // Marks the conversation to be saved within a second or when the page closes.
  private touch(conversation: Conversation): void {
    if (conversation.messages.length > 0) this.dirty.add(conversation);
  }

  private keep(): void {
    for (const conversation of this.dirty) {
      const problem = this.store.save(conversation);
      if (problem) toast(t(problem));
    }
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

  private send(draft: Draft, versions?: Versions): void {
    const message = questionOf(draft);
    if (versions) attach(message, versions);
    this.current.messages.push(message);
    this.answer();
  }

  private edit(message: Message, text: string, images: AttachedImage[]): void {
    const at = this.at(message);
    if (at < 0) return;
    const was = message.version ?? 0;
    this.send({ text, files: message.files ?? [], images }, cut(this.current.messages, at));
    this.offerUndo(at, was, t("questionKept"));
  }

  // A failed answer without text is replaced, any other one is kept as a version.
  private regenerate(message: Message): void {
    const at = this.at(message);
    if (at < 0) return;
    const isEmpty = !message.content && !message.reasoning && !message.calls?.length;
    const was = message.version ?? 0;
    const versions = isEmpty ? renew(this.current.messages, at) : cut(this.current.messages, at);
    this.answer(versions);
    if (!isEmpty) this.offerUndo(at, was, t("answerKept"));
  }

  private continue(message: Message): void {
    if (this.at(message) < 0) return;
    this.log.follows = true;
    this.answering.continue(this.current, message);
    this.showFrame();
  }

  private reply(message: Message, results: string[]): void {
    const { messages } = this.current;
    (message.calls ?? []).forEach(({ id }, i) => messages.push({ id: newId(), role: "tool", callId: id, content: results[i] ?? "" }));
    this.answer();
  }

  private version(message: Message, wanted: number): void {
    const at = this.at(message);
    if (at < 0) return;
    switchTo(this.current.messages, at, wanted);
    this.touch(this.current);
    const { scrollTop } = this.log.scroller;
    this.showConversation();
    this.log.scroller.scrollTop = scrollTop;
  }

  // The place of a message whose answer, if it is still coming, is stopped.
  private at(message: Message): number {
    this.answering.stop(this.current);
    return this.current.messages.indexOf(message);
  }

  private offerUndo(at: number, was: number, text: string): void {
    const conversation = this.current;
    const back = () => {
      this.answering.stop(conversation);
      drop(conversation.messages, at, was);
      this.touch(conversation);
      if (conversation === this.current) this.showConversation();
    };
    toast(text, { label: t("undo"), run: back });
  }

  // `versions`: of the answer.
  private answer(versions?: Versions): void {
    const { current } = this;
    this.log.follows = true;
    const at = current.messages.length;
    this.answering.start(current);
    if (versions) attach(current.messages[at]!, versions);
    this.touch(current);
    this.keep();
    this.showConversation();
  }

  private grown(conversation: Conversation, message: Message): void {
    if (this.store.find(conversation.id)) this.touch(conversation); // else it was deleted
    if (message.end !== undefined) this.showFrame();
    if (message.end !== undefined && conversation === this.current) {
      this.measure();
      // The first question loads a model.
      if (!this.models.find(({ name }) => name === conversation.model)?.isLoaded && message.end !== "error") void this.loadModels();
    }
    if (conversation === this.current) this.log.grown(message);
  }

  private showConversation(): void {
    const { messages, model, id } = this.current;
    history.replaceState(null, "", messages.length > 0 ? `#${id}` : location.pathname);
    this.log.show(messages, () => greeting(model, (text) => this.send({ text, files: [], images: [] })));
    this.showFrame();
    this.log.follow();
    this.measure();
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

  private settings(wantsKey: boolean, refused?: { param: string; reason: string }): void {
    const conversation = this.current;
    const key = apiKey.get();
    openSettings(conversation.settings, {
      wantsKey,
      refused,
      changed: () => this.touch(conversation),
      closed: () => {
        if (apiKey.get() !== key) void this.loadModels();
        this.measure();
        this.composer.focus();
      },
    });
  }

  private menu(isOpen: boolean): void {
    this.root.classList.toggle("menu-open", isOpen);
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
