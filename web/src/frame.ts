// Shared by both pages: the theme and language buttons.

import { h, iconButton, icon, type IconName } from "./dom";
import { switchLanguage, t } from "./language";
import { nextTheme, theme, type Theme } from "./theme";
import type { TextKey } from "./texts/en";

const icons: Record<Theme, IconName> = { auto: "auto", light: "sun", dark: "moon" };
const labels: Record<Theme, TextKey> = { auto: "themeAuto", light: "themeLight", dark: "themeDark" };

function themeButton(): HTMLElement {
  const next = () => {
    nextTheme();
    const button = themeButton();
    node.replaceWith(button);
    button.focus();
  };
  const node = iconButton(icons[theme()], t(labels[theme()]), next, { id: "theme" });
  return node;
}

// `rebuild` redraws the page in the other language.
export function switches(rebuild: () => void): HTMLElement {
  const language = iconButton("globe", t("switchLanguage"), () => (switchLanguage(), rebuild()), { id: "language" });
  return h("div", { class: "switches" }, themeButton(), language);
}

export function pageLink(href: string, name: IconName, text: string): HTMLElement {
  return h("a", { class: "page-link", href }, icon(name), h("span", {}, text));
}
