// What the views of messages have in common, and those of questions and tool results.

import { h, iconButton } from "../dom";
import { t } from "../language";
import { bytesText } from "../units";
import { resultView } from "./calls";
import { imageChip } from "./chips";
import { copyButton } from "./copy_button";
import { imageView } from "./image";
import type { AttachedImage, Attachment, Message } from "./store";

export interface MessageActions {
  edit(message: Message, text: string, images: AttachedImage[]): void;
  regenerate(message: Message): void;
  continue(message: Message): void;
  reply(message: Message, results: string[]): void; // results of its tool calls
  version(message: Message, wanted: number): void;
  settings(param: string, reason: string): void;
  key(): void;
}

export interface MessageView {
  readonly message: Message;
  readonly node: HTMLElement;
  update(): void;
  // `isLast`: no message follows.
  place(isLast: boolean): void;
}

// ‹ 2/3 ›, or nothing for a message with one version.
export function versionSwitch(message: Message, actions: MessageActions): HTMLElement[] {
  const { versions, version = 0 } = message;
  if (!versions || versions.length < 2) return [];
  const go = (step: number) => () => actions.version(message, version + step);
  const before = iconButton("back", t("previousVersion"), go(-1), { disabled: version === 0 });
  const after = iconButton("chevron", t("nextVersion"), go(1), { disabled: version === versions.length - 1 });
  const count = h("span", { "aria-label": t("versionOf", { number: version + 1, count: versions.length }), role: "img" }, `${version + 1}/${versions.length}`);
  return [h("span", { class: "versions" }, before, count, after)];
}

function fileView({ name, text }: Attachment): HTMLElement {
  const body = h("pre", { tabIndex: 0 }, text);
  return h("details", { class: "file" }, h("summary", {}, name, h("small", {}, bytesText(new Blob([text]).size))), body);
}

export class UserView implements MessageView {
  readonly node = h("article", { class: "message user", "aria-label": t("you") });

  constructor(
    readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.show();
  }

  update(): void {}
  place(): void {}

  private show(): void {
    const { content, files = [], images = [] } = this.message;
    const switches = versionSwitch(this.message, this.actions);
    this.node.replaceChildren(
      ...(images.length > 0 ? [h("div", { class: "images" }, ...images.map((image) => imageView(image, 420, 320)))] : []),
      ...files.map(fileView),
      ...(content ? [h("div", { class: "bubble" }, content)] : []),
      h(
        "div",
        { class: `actions${switches.length > 0 ? " shown" : ""}` },
        ...switches,
        copyButton(t("copy"), () => content, false),
        iconButton("pencil", t("edit"), () => this.edit()),
      ),
    );
  }

  private edit(): void {
    let { images = [] } = this.message;
    const list = h("ul", { class: "chips", "aria-label": t("attached") });
    const showImages = () => {
      list.replaceChildren(...images.map((image) => imageChip(image, () => remove(image))));
      list.hidden = images.length === 0;
    };
    const remove = (image: AttachedImage) => {
      images = images.filter((other) => other !== image);
      showImages();
      area.focus();
    };
    const area = h("textarea", { class: "edit-area", value: this.message.content, "aria-label": t("edit") });
    const save = () => {
      const text = area.value.trim();
      if (text || images.length > 0) this.actions.edit(this.message, text, images);
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
    const buttons = h(
      "div",
      { class: "editor-buttons" },
      h("button", { type: "button", onclick: () => this.show() }, t("cancel")),
      h("button", { type: "button", class: "primary", onclick: save }, t("save")),
    );
    this.node.replaceChildren(h("div", { class: "editor" }, list, area, buttons));
    showImages();
    resize();
    area.focus();
  }
}

export class ToolView implements MessageView {
  readonly node: HTMLElement;

  // `name`: of the function.
  constructor(
    readonly message: Message,
    name: string,
  ) {
    this.node = h("article", { class: "message tool", "aria-label": `${t("resultOf")} ${name}` }, resultView(name, message.content));
  }

  update(): void {}
  place(): void {}
}
