// The input box for questions.

import { h, icon } from "../dom";
import { t } from "../language";

export class Composer {
  private readonly area = h("textarea", { id: "question", rows: 1, placeholder: t("placeholder"), "aria-label": t("placeholder") });
  private readonly button = h("button", { type: "button", id: "send", class: "send" });
  private isRunning = false;
  readonly node = h(
    "div",
    { class: "composer" },
    h("div", { class: "composer-box" }, this.area, this.button),
    h("p", { class: "keys" }, t("keys")),
  );

  constructor(actions: { send: (text: string) => void; stop: () => void }) {
    const send = () => {
      const text = this.area.value.trim();
      if (!text || this.isRunning) return;
      this.text = "";
      actions.send(text);
    };
    this.button.addEventListener("click", () => (this.isRunning ? actions.stop() : send()));
    this.area.addEventListener("input", () => this.resize());
    this.area.addEventListener("keydown", (event) => {
      // During IME composition Enter selects a candidate.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      send();
    });
    this.show(false);
  }

  get text(): string {
    return this.area.value;
  }

  set text(value: string) {
    this.area.value = value;
    this.resize();
  }

  focus(): void {
    // On phones the on-screen keyboard would hide half of the page.
    if (!matchMedia("(pointer: coarse)").matches) this.area.focus();
  }

  show(isRunning: boolean): void {
    this.isRunning = isRunning;
    const label = t(isRunning ? "stop" : "send");
    this.button.title = label;
    this.button.setAttribute("aria-label", label);
    this.button.classList.toggle("running", isRunning);
    this.button.replaceChildren(icon(isRunning ? "stop" : "send"));
    this.resize();
  }

  private resize(): void {
    this.area.style.height = "auto";
    if (this.area.scrollHeight > 0) this.area.style.height = `${this.area.scrollHeight}px`;
    this.button.disabled = !this.isRunning && this.area.value.trim() === "";
  }
}
