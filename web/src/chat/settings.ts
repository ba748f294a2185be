// The dialog for a chat's settings and the API key.

import { apiKey } from "../api";
import { h, iconButton } from "../dom";
import { t } from "../language";
import type { TextKey } from "../texts/en";
import type { Settings } from "./store";

type NumberName = Exclude<keyof Settings, "system">;

const fields: { name: NumberName; label: TextKey; min: number; max?: number; step: number }[] = [
  { name: "temperature", label: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "top_p", label: "topP", min: 0, max: 1, step: 0.05 },
  { name: "top_k", label: "topK", min: 0, step: 1 },
  { name: "max_tokens", label: "maxTokens", min: 1, step: 1 },
  { name: "seed", label: "seed", min: 0, step: 1 },
];

function numberField(settings: Settings, field: (typeof fields)[number], changed: () => void): HTMLElement {
  const input = h("input", {
    type: "number",
    inputMode: field.step < 1 ? "decimal" : "numeric",
    name: field.name,
    min: field.min,
    max: field.max,
    step: field.step,
    value: settings[field.name] ?? "",
    placeholder: t("automatic"),
  });
  input.addEventListener("input", () => {
    const value = input.valueAsNumber;
    input.classList.toggle("bad", !input.checkValidity() && !input.validity.stepMismatch);
    if (Number.isNaN(value)) delete settings[field.name];
    else settings[field.name] = field.step < 1 ? value : Math.round(value);
    changed();
  });
  return h("label", {}, h("span", {}, t(field.label)), input);
}

// With `wantsKey` the dialog shows only the key. `changed` is called on every change, `closed` on close.
export function openSettings(settings: Settings, options: { wantsKey: boolean; changed: () => void; closed: () => void }): void {
  document.querySelector("dialog")?.remove();
  const system = h("textarea", { name: "system", rows: 4, value: settings.system ?? "", placeholder: t("systemPlaceholder") });
  system.addEventListener("input", () => {
    settings.system = system.value || undefined;
    options.changed();
  });
  const key = h("input", { type: "password", name: "key", value: apiKey.get(), autocomplete: "off", spellcheck: false });
  key.addEventListener("input", () => apiKey.set(key.value.trim()));

  const dialog = h("dialog", { class: "settings", "aria-label": t("settingsOfChat") });
  const reset = () => {
    for (const name of Object.keys(settings)) delete settings[name as keyof Settings];
    options.changed();
    dialog.close();
    openSettings(settings, options);
  };
  const keyField = h("label", {}, h("span", {}, t("apiKey")), key, h("small", {}, t("apiKeyHint")));
  const chatFields = [
    h("p", { class: "hint" }, t("settingsHint")),
    h("label", {}, h("span", {}, t("systemPrompt")), system),
    h("div", { class: "grid" }, ...fields.map((field) => numberField(settings, field, options.changed))),
  ];
  dialog.append(
    h(
      "form",
      { method: "dialog", noValidate: true }, // the server validates the values
      h("header", {}, h("h2", {}, t(options.wantsKey ? "apiKey" : "settingsOfChat")), iconButton("close", t("done"), () => dialog.close())),
      options.wantsKey && h("p", { class: "note bad" }, h("span", {}, t("apiKeyWanted"))),
      ...(options.wantsKey ? [] : chatFields),
      keyField,
      h(
        "footer",
        {},
        options.wantsKey ? h("span") : h("button", { type: "button", onclick: reset }, t("reset")),
        h("button", { type: "submit", class: "primary" }, t("done")),
      ),
    ),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // a click on the backdrop
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    options.closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  if (options.wantsKey) key.focus();
  else if (matchMedia("(pointer: coarse)").matches) dialog.querySelector<HTMLElement>("button")?.focus();
  else system.focus();
}
