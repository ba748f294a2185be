// Attached files and images with a button that removes them.

import { h, iconButton } from "../dom";
import { t } from "../language";
import { bytesText } from "../units";
import { imageBytes, imageView } from "./image";
import type { AttachedImage, Attachment } from "./store";

const removeButton = (name: string, remove: () => void) => iconButton("close", `${t("delete")}: ${name}`, remove);

export function fileChip({ name, text }: Attachment, remove: () => void): HTMLElement {
  return h("li", {}, h("span", {}, name), h("small", {}, bytesText(new Blob([text]).size)), removeButton(name, remove));
}

export function imageChip(image: AttachedImage, remove: () => void): HTMLElement {
  const { name, url } = image;
  const about = url ? [h("span", {}, name), h("small", {}, bytesText(imageBytes(image)))] : [];
  return h("li", { class: "image-chip" }, imageView(image, 72, 56), ...about, removeButton(name, remove));
}
