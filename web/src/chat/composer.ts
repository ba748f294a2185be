// The input box for questions and the files that go with them.

import { h, icon, iconButton, toast } from "../dom";
import { t } from "../language";
import { bytesText } from "../units";
import type { Attachment } from "./store";

const maxFileBytes = 512 * 1024; // chats are kept in the browser's storage of a few MiB

async function readFile(file: File): Promise<Attachment | undefined> {
  if (file.size > maxFileBytes) {
    toast(t("fileTooLarge", { name: file.name, size: bytesText(file.size), max: bytesText(maxFileBytes) }));
    return undefined;
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return { name: file.name, text };
  } catch {
    // Not UTF-8.
  }
  toast(t("fileNotText", { name: file.name }));
  return undefined;
}

export interface ComposerActions {
  send: (text: string, files: Attachment[]) => void;
  stop: () => void;
  changed: () => void; // the draft
}

export class Composer {
  private readonly area = h("textarea", { id: "question", rows: 1, placeholder: t("placeholder"), "aria-label": t("placeholder") });
  private readonly button = h("button", { type: "button", id: "send", class: "send" });
  private readonly picker = h("input", { type: "file", id: "files", multiple: true, hidden: true });
  private readonly chips = h("ul", { class: "chips", "aria-label": t("attached"), hidden: true });
  private isRunning = false;
  private attached: Attachment[] = [];
  readonly node: HTMLElement;

  // `gauge` is shown below the box.
  constructor(
    private readonly actions: ComposerActions,
    gauge: HTMLElement,
  ) {
    const attach = iconButton("clip", t("attach"), () => this.picker.click(), { class: "icon-button attach" });
    const box = h("div", { class: "composer-box" }, attach, this.picker, this.area, this.button);
    this.node = h("div", { class: "composer" }, this.chips, box, h("div", { class: "composer-foot" }, h("p", { class: "keys" }, t("keys")), gauge));
    this.button.addEventListener("click", () => (this.isRunning ? actions.stop() : this.send()));
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => {
      // During IME composition Enter selects a candidate.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.send();
    });
    this.acceptFiles(box);
    this.show(false);
  }

  get text(): string {
    return this.area.value;
  }

  set text(value: string) {
    this.area.value = value;
    this.resize();
  }

  get files(): Attachment[] {
    return this.attached;
  }

  set files(files: Attachment[]) {
    this.attached = files;
    const chip = (file: Attachment) =>
      h("li", {}, h("span", {}, file.name), h("small", {}, bytesText(new Blob([file.text]).size)), iconButton("close", `${t("delete")}: ${file.name}`, () => this.detach(file)));
    this.chips.replaceChildren(...files.map(chip));
    this.chips.hidden = files.length === 0;
    this.changed();
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

  private send(): void {
    const text = this.area.value.trim();
    const { attached } = this;
    if ((!text && attached.length === 0) || this.isRunning) return;
    this.text = "";
    this.files = [];
    this.actions.send(text, attached);
  }

  private acceptFiles(box: HTMLElement): void {
    this.picker.addEventListener("change", () => {
      void this.attach(this.picker.files);
      this.picker.value = "";
    });
    this.area.addEventListener("paste", (event) => {
      if (!event.clipboardData?.files.length) return;
      event.preventDefault();
      void this.attach(event.clipboardData.files);
    });
    for (const name of ["dragover", "drop"] as const) {
      box.addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        if (name === "drop") void this.attach(event.dataTransfer.files);
      });
    }
  }

  private async attach(files: FileList | null): Promise<void> {
    const read = await Promise.all([...(files ?? [])].map(readFile));
    this.files = [...this.attached, ...read.filter((file) => file !== undefined)];
    this.focus();
  }

  private detach(file: Attachment): void {
    this.files = this.attached.filter((other) => other !== file);
    this.focus();
  }

  private changed(): void {
    this.resize();
    this.actions.changed();
  }

  private resize(): void {
    this.area.style.height = "auto";
    if (this.area.scrollHeight > 0) this.area.style.height = `${this.area.scrollHeight}px`;
    this.button.disabled = !this.isRunning && this.area.value.trim() === "" && this.attached.length === 0;
  }
}
