// The messages of the shown conversation: their views, and scrolling with new text.

import { h, iconButton } from "../dom";
import { t } from "../language";
import { AnswerView } from "./answer_view";
import { ToolView, UserView, type MessageActions, type MessageView } from "./message_view";
import type { Message } from "./store";

export class LogView {
  private readonly log = h("div", { class: "log", role: "log" });
  readonly scroller = h("main", { class: "scroller", tabIndex: -1 }, this.log);
  readonly downButton = iconButton("down", t("scrollDown"), () => this.follow(), { class: "icon-button to-end", hidden: true });
  private views: MessageView[] = [];
  private readonly pending = new Set<Message>(); // answers with text that is not drawn yet
  follows = true; // scroll with new text

  constructor(private readonly actions: MessageActions) {
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // The height of a message is known when it is laid out first.
    new ResizeObserver(() => this.follows && this.follow()).observe(this.log);
  }

  // `greeting`: shown when there are no messages.
  show(messages: Message[], greeting: () => HTMLElement): void {
    const old = new Map(this.views.map((view) => [view.message, view]));
    this.views = messages.map((message, i) => old.get(message) ?? this.viewOf(message, messages, i));
    this.views.forEach((view, i) => view.place(i === messages.length - 1));
    // Unchanged nodes stay in the DOM: no flicker, and selections survive.
    const nodes = this.views.length > 0 ? this.views.map((view) => view.node) : [greeting()];
    let same = 0;
    while (same < nodes.length && this.log.childNodes[same] === nodes[same]) ++same;
    while (this.log.childNodes.length > same) this.log.lastChild!.remove();
    this.log.append(...nodes.slice(same));
  }

  private viewOf(message: Message, messages: Message[], at: number): MessageView {
    if (message.role === "user") return new UserView(message, this.actions);
    if (message.role === "assistant") return new AnswerView(message, this.actions);
    const calls = messages.slice(0, at).flatMap((earlier) => earlier.calls ?? []).reverse();
    return new ToolView(message, calls.find(({ id }) => id === message.callId)?.name ?? "");
  }

  // Batches updates: at most one redraw per animation frame.
  grown(message: Message): void {
    if (this.pending.has(message)) return;
    this.pending.add(message);
    const draw = () => {
      if (!this.pending.delete(message)) return;
      this.views.find((view) => view.message === message)?.update();
      if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    };
    requestAnimationFrame(draw);
    setTimeout(draw, 250); // hidden windows get no frames
  }

  follow(): void {
    this.follows = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.downButton.hidden = true;
  }

  // Shows the message with this id, if it is on the chosen path.
  find(id: string): void {
    const node = this.views.find(({ message }) => message.id === id)?.node;
    if (!node) return;
    this.follows = false;
    node.scrollIntoView({ block: "center" });
    node.classList.add("marked");
    setTimeout(() => node.classList.remove("marked"), 2000);
  }

  private scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.follows = scrollHeight - scrollTop - clientHeight < 40;
    this.downButton.hidden = this.follows;
  }
}
