// The input box for questions and the files that go with them.

import { h, icon, iconButton, toast } from "../dom";
import { t } from "../language";
import { readsImages } from "../models";
import { pastedFiles, readFiles } from "./attaching";
import { fileChip, imageChip } from "./chips";
import type { Attachment, AttachedImage, Draft } from "./store";

export interface ComposerActions {
  send: (draft: Draft) => void;
  stop: () => void;
  changed: () => void; // the draft
}

export class Composer {
  private readonly area = h("textarea", { id: "question", rows: 1, placeholder: t("placeholder"), "aria-label": t("placeholder") });
  private readonly button = h("button", { type: "button", id: "send", class: "send" });
  private readonly picker = h("input", { type: "file", id: "files", multiple: true, hidden: true });
  private readonly chips = h("ul", { class: "chips", "aria-label": t("attached"), hidden: true });
  private readonly refusal = h("p", { class: "refusal", role: "status" });
  private isRunning = false;
  private model = "";
  private files: Attachment[] = [];
  private images: AttachedImage[] = [];
  readonly node: HTMLElement;

  // `gauge` is shown below the box.
  constructor(
    private readonly actions: ComposerActions,
    gauge: HTMLElement,
  ) {
    const attach = iconButton("clip", t("attach"), () => this.picker.click(), { class: "icon-button attach" });
    const box = h("div", { class: "composer-box" }, attach, this.picker, this.area, this.button);
    this.node = h("div", { class: "composer" }, this.refusal, this.chips, box, h("div", { class: "composer-foot" }, h("p", { class: "keys" }, t("keys")), gauge));
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

  get draft(): Draft {
    return { text: this.area.value, files: this.files, images: this.images };
  }

  set draft({ text, files, images }: Draft) {
    this.area.value = text;
    this.files = files;
    this.images = images;
    this.chips.replaceChildren(
      ...images.map((image) => imageChip(image, () => this.detach(image))),
      ...files.map((file) => fileChip(file, () => this.detach(file))),
    );
    this.chips.hidden = files.length + images.length === 0;
    this.changed();
  }

  // Says so when images are attached and the model reads none.
  check(model: string): void {
    this.model = model;
    if (this.images.length === 0) this.refuse("");
    else void readsImages(model).then((reads) => model === this.model && this.refuse(reads === false && this.images.length > 0 ? t("noVision", { model }) : ""));
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
    const { draft } = this;
    const text = draft.text.trim();
    if ((!text && !this.hasFiles) || this.isRunning) return;
    if (this.refusal.textContent) {
      toast(this.refusal.textContent);
      return;
    }
    this.draft = { text: "", files: [], images: [] };
    this.actions.send({ ...draft, text });
  }

  private get hasFiles(): boolean {
    return this.files.length + this.images.length > 0;
  }

  private refuse(text: string): void {
    if (this.refusal.textContent !== text) this.refusal.textContent = text;
  }

  private acceptFiles(box: HTMLElement): void {
    this.picker.addEventListener("change", () => {
      void this.attach([...(this.picker.files ?? [])]);
      this.picker.value = "";
    });
    this.area.addEventListener("paste", (event) => {
      const files = event.clipboardData ? pastedFiles(event.clipboardData) : [];
      if (files.length === 0) return;
      event.preventDefault();
      void this.attach(files);
    });
    for (const name of ["dragover", "drop"] as const) {
      box.addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        if (name === "drop") void this.attach([...event.dataTransfer.files]);
      });
    }
  }

  private async attach(list: File[]): Promise<void> {
    const { files, images } = await readFiles(list);
    const { draft } = this;
    this.draft = { ...draft, files: [...draft.files, ...files], images: [...draft.images, ...images] };
    this.focus();
  }

  private detach(what: Attachment | AttachedImage): void {
    const { text, files, images } = this.draft;
    this.draft = { text, files: files.filter((file) => file !== what), images: images.filter((image) => image !== what) };
    this.focus();
  }

  private changed(): void {
    this.resize();
    this.actions.changed();
  }

  private resize(): void {
    this.area.style.height = "auto";
    if (this.area.scrollHeight > 0) this.area.style.height = `${this.area.scrollHeight}px`;
    this.button.disabled = !this.isRunning && this.area.value.trim() === "" && !this.hasFiles;
  }
}
