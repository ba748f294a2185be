// What an empty chat shows.

import { h } from "../dom";
import { t } from "../language";

// The bundled model knows no more than simple tasks, in English.
const ofSprout = [
  "What can you do?",
  "Anna has 12 apples and buys 15 more. How many apples does she have?",
  "Tell me a short story about a fox and a lantern.",
];

export function suggestions(model: string): string[] {
  return /^sprout\b/i.test(model) ? ofSprout : [t("suggestion1"), t("suggestion2"), t("suggestion3")];
}

export function greeting(model: string, send: (text: string) => void): HTMLElement {
  const button = (text: string) => h("button", { type: "button", onclick: () => send(text) }, text);
  return h(
    "div",
    { class: "greeting" },
    h("h2", {}, t("greeting")),
    h("p", {}, t("greetingHint")),
    h("div", { class: "suggestions" }, ...suggestions(model).map(button)),
  );
}
