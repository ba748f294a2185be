import { copyText, h, icon } from "../dom";
import { t } from "../language";

export function copyButton(label: string, text: () => string, showsLabel: boolean): HTMLButtonElement {
  const name = h("span", {}, showsLabel ? t("copy") : "");
  const button = h("button", { type: "button", class: showsLabel ? "copy-code" : "icon-button", title: label, "aria-label": label }, icon("copy"), name);
  button.addEventListener("click", async () => {
    await copyText(text());
    button.replaceChild(icon("check"), button.firstChild!);
    if (showsLabel) name.textContent = t("copied");
    setTimeout(() => {
      button.replaceChild(icon("copy"), button.firstChild!);
      if (showsLabel) name.textContent = t("copy");
    }, 1500);
  });
  return button;
}
