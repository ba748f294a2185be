// Images of questions: read from files, kept as data: URLs and drawn on canvases. An <img> would need data: or blob:
// sources, which the page's policy forbids.

import { h } from "../dom";
import { t } from "../language";
import type { AttachedImage } from "./store";

// The server's limits.
export const maxImageBytes = 32 * 1024 * 1024;
export const maxImagePixels = 1 << 26;

const url = /^data:(image\/(?:png|jpeg|webp|gif|bmp));base64,([A-Za-z0-9+/]+={0,2})$/;

export function isImageUrl(text: string): boolean {
  return url.test(text);
}

// The type of an image that the server reads, by its first bytes.
export function imageType(bytes: Uint8Array): string | undefined {
  const text = String.fromCharCode(...bytes.subarray(0, 12));
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("RIFF") && text.endsWith("WEBP")) return "image/webp";
  if (/^GIF8[79]a/.test(text)) return "image/gif";
  // A text may begin with "BM": the next fields are the size of the file and four bytes that are zero.
  return text.startsWith("BM") && text.slice(6, 10) === "\0\0\0\0" ? "image/bmp" : undefined;
}

// Of the file, from the length of its base64 text.
export function imageBytes(image: AttachedImage): number {
  const [, , base64 = ""] = url.exec(image.url) ?? [];
  return Math.floor((base64.replace(/=+$/, "").length * 3) / 4);
}

export function dataUrl(bytes: BlobPart, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error!);
    reader.readAsDataURL(new Blob([bytes], { type }));
  });
}

function decode(image: AttachedImage): Promise<ImageBitmap> {
  const [, type, base64 = ""] = url.exec(image.url) ?? [];
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return createImageBitmap(new Blob([bytes], { type }));
}

async function draw(canvas: HTMLCanvasElement, image: AttachedImage, width: number, height: number): Promise<void> {
  const bitmap = await decode(image);
  const shrink = Math.min(1, width / bitmap.width, height / bitmap.height);
  const size = (length: number, scale: number) => Math.max(1, Math.round(length * shrink * scale));
  canvas.width = size(bitmap.width, devicePixelRatio);
  canvas.height = size(bitmap.height, devicePixelRatio);
  canvas.style.width = `${size(bitmap.width, 1)}px`;
  const context = canvas.getContext("2d")!;
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
}

// At most `width` × `height` CSS pixels; the name alone for an image that was not kept or cannot be decoded.
export function imageView(image: AttachedImage, width: number, height: number): HTMLElement {
  if (!image.url) return h("span", { class: "no-image" }, t("imageGone", { name: image.name }));
  const label = t("imageNamed", { name: image.name });
  const canvas = h("canvas", { class: "image", role: "img", "aria-label": label, title: image.name, width: 1, height: 1 });
  draw(canvas, image, width, height).catch(() => canvas.replaceWith(h("span", { class: "no-image" }, t("imageBroken", { name: image.name }))));
  return canvas;
}
