// The page texts in the user's language.

import { en, type TextKey, type Texts } from "./texts/en";
import { zh } from "./texts/zh";
import { local } from "./local";

const tables: Record<string, Texts> = { en, zh };

function preferred(): string {
  // Node.js, in which the tests run, may have no navigator.
  return globalThis.navigator?.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

let current = local.get("language") ?? preferred();

export function language(): string {
  return current in tables ? current : "en";
}

export function switchLanguage(): void {
  current = language() === "en" ? "zh" : "en";
  local.set("language", current);
  applyLanguage();
}

export function applyLanguage(): void {
  document.documentElement.lang = language() === "zh" ? "zh-Hans" : "en";
}

export function t(key: TextKey, values: Record<string, string | number> = {}): string {
  return tables[language()]![key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
