// Files that are attached to a question: text files and images.

import { toast } from "../dom";
import { t } from "../language";
import { bytesText } from "../units";
import { dataUrl, imageType, maxImageBytes, maxImagePixels } from "./image";
import type { Attachment, Draft, AttachedImage } from "./store";

const maxFileBytes = 512 * 1024; // chats are kept in the browser's storage of a few MiB

function isSmall({ name, size }: File, max: number): boolean {
  if (size > max) toast(t("fileTooLarge", { name, size: bytesText(size), max: bytesText(max) }));
  return size <= max;
}

async function readImage(file: File, type: string): Promise<AttachedImage | undefined> {
  if (!isSmall(file, maxImageBytes)) return undefined;
  const { name } = file;
  try {
    const bytes = await file.arrayBuffer();
    const bitmap = await createImageBitmap(new Blob([bytes], { type }));
    const { width, height } = bitmap;
    bitmap.close();
    if (width * height <= maxImagePixels) return { name, url: await dataUrl(bytes, type) };
    toast(t("tooManyPixels", { name, width, height, max: maxImagePixels.toLocaleString() }));
  } catch {
    toast(t("imageBroken", { name }));
  }
  return undefined;
}

async function readText(file: File): Promise<Attachment | undefined> {
  if (!isSmall(file, maxFileBytes)) return undefined;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return { name: file.name, text };
  } catch {
    // Not UTF-8.
  }
  toast(t("fileNotText", { name: file.name }));
  return undefined;
}

// What can be attached of `files`; the user is told about the others.
export async function readFiles(files: File[]): Promise<Pick<Draft, "files" | "images">> {
  const read = { files: [] as Attachment[], images: [] as AttachedImage[] };
  for (const file of files) {
    const type = imageType(new Uint8Array(await file.slice(0, 12).arrayBuffer()));
    const image = type && (await readImage(file, type));
    const text = type ? undefined : await readText(file);
    if (image) read.images.push(image);
    if (text) read.files.push(text);
  }
  return read;
}

// Office programs copy a picture of the text beside the text, which is what is pasted.
export function pastedFiles({ files, types }: DataTransfer): File[] {
  const list = [...files];
  return types.includes("text/plain") && list.every(({ type }) => type.startsWith("image/")) ? [] : list;
}
