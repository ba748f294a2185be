// The dialog for a chat's settings and the API key.

import { apiKey } from "../api";
import { openDialog } from "../dialog";
import { h } from "../dom";
import { t } from "../language";
import type { TextKey } from "../texts/en";
import { presetRow } from "./presets";
import { parseJson, SettingError, toolsOf } from "./request";
import type { Settings } from "./store";

type NumberName = { [K in keyof Settings]-?: number extends Settings[K] ? K : never }[keyof Settings];

interface NumberField {
  name: NumberName;
  label: TextKey;
  min: number;
  max?: number;
  step: number;
}

const fields: NumberField[] = [
  { name: "temperature", label: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "top_p", label: "topP", min: 0, max: 1, step: 0.05 },
  { name: "top_k", label: "topK", min: 0, step: 1 },
  { name: "min_p", label: "minP", min: 0, max: 1, step: 0.05 },
  { name: "max_tokens", label: "maxTokens", min: 1, step: 1 },
  { name: "seed", label: "seed", min: 0, step: 1 },
  { name: "presence_penalty", label: "presencePenalty", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", label: "frequencyPenalty", min: -2, max: 2, step: 0.1 },
  { name: "repetition_penalty", label: "repetitionPenalty", min: 0.01, max: 100, step: 0.05 },
];

const others = ["stop", "tools", "response_format"];

// Whether a field that the server refused can be changed in this dialog.
export function isSetting(param: string): boolean {
  const name = param.split(/[.[]/)[0]!;
  return [...fields.map((field) => field.name as string), ...others].includes(name);
}

// A labelled input with a line below it that says why its value is refused.
function field(label: string, input: HTMLElement & { name: string }, hint?: string): { node: HTMLElement; refuse: (reason: string) => void } {
  const reason = h("small", { class: "reason", id: `reason-${input.name}`, role: "alert" });
  input.setAttribute("aria-describedby", reason.id);
  const refuse = (text: string) => {
    reason.textContent = text;
    input.classList.toggle("bad", text !== "");
    input.setAttribute("aria-invalid", String(text !== ""));
  };
  return { node: h("label", {}, h("span", {}, label), input, hint ? h("small", {}, hint) : undefined, reason), refuse };
}

function numberField(settings: Settings, { name, label, min, max, step }: NumberField, changed: () => void): HTMLElement {
  const input = h("input", { type: "number", inputMode: step < 1 ? "decimal" : "numeric", name, min, max, step, value: settings[name] ?? "", placeholder: t("automatic") });
  const { node, refuse } = field(t(label), input);
  const check = () => {
    const isBad = !input.checkValidity() && !input.validity.stepMismatch;
    refuse(!isBad ? "" : max === undefined ? t("atLeast", { min }) : t("between", { min, max }));
  };
  input.addEventListener("input", () => {
    const value = input.valueAsNumber;
    check();
    if (Number.isNaN(value)) delete settings[name];
    else settings[name] = step < 1 ? value : Math.round(value);
    changed();
  });
  check();
  return node;
}

type TextName = "tools" | "schema";

// JSON that is checked while it is written.
function jsonField(settings: Settings, name: TextName, label: string, hint: string, check: (text: string) => void, changed: () => void): HTMLElement {
  const area = h("textarea", { name, rows: 4, value: settings[name] ?? "", spellcheck: false, class: "json", placeholder: hint });
  const { node, refuse } = field(label, area);
  const validate = () => {
    try {
      if (area.value.trim()) check(area.value);
      refuse("");
    } catch (error) {
      refuse(error instanceof SettingError ? error.message : String(error));
    }
  };
  area.addEventListener("input", () => {
    settings[name] = area.value.trim() ? area.value : undefined;
    validate();
    changed();
  });
  validate();
  return node;
}

function stopField(settings: Settings, changed: () => void): HTMLElement {
  const area = h("textarea", { name: "stop", rows: 2, value: (settings.stop ?? []).join("\n"), spellcheck: false });
  area.addEventListener("input", () => {
    const lines = area.value.split("\n").filter((line) => line !== "");
    settings.stop = lines.length > 0 ? lines : undefined;
    changed();
  });
  return field(t("stopTexts"), area, t("stopHint")).node;
}

function choice(name: string, label: string, values: [string, string][], current: string, choose: (value: string) => void): HTMLElement {
  const select = h("select", { name }, ...values.map(([value, text]) => h("option", { value }, text)));
  select.value = current;
  select.addEventListener("change", () => choose(select.value));
  return field(label, select).node;
}

function toolFields(settings: Settings, changed: () => void): HTMLElement {
  const schema = jsonField(settings, "schema", t("schema"), '{"type": "object", "properties": {}}', (text) => parseJson("response_format", text), changed);
  const show = () => (schema.hidden = settings.format !== "schema");
  const format = choice(
    "response_format",
    t("format"),
    [["", t("formatText")], ["json", t("formatJson")], ["schema", t("formatSchema")]],
    settings.format ?? "",
    (value) => {
      settings.format = (value || undefined) as Settings["format"];
      show();
      changed();
    },
  );
  show();
  const tools = jsonField(settings, "tools", t("tools"), t("toolsHint"), toolsOf, changed);
  const isUsed = settings.tools || settings.format;
  return h("details", { open: !!isUsed }, h("summary", {}, t("toolsAndFormat")), tools, format, schema);
}

export interface SettingsOptions {
  wantsKey: boolean; // shows only the key
  refused?: { param: string; reason: string };
  changed: () => void;
  closed: () => void;
}

function chatFields(settings: Settings, changed: () => void): HTMLElement[] {
  const system = h("textarea", { name: "system", rows: 4, value: settings.system ?? "", placeholder: t("systemPlaceholder") });
  const keep = () => {
    settings.system = system.value || undefined;
    changed();
  };
  system.addEventListener("input", keep);
  const thinking = choice(
    "thinking",
    t("thinking"),
    [["", t("automatic")], ["on", t("on")], ["off", t("off")]],
    settings.thinking === undefined ? "" : settings.thinking ? "on" : "off",
    (value) => {
      settings.thinking = value === "" ? undefined : value === "on";
      changed();
    },
  );
  return [
    h("p", { class: "hint" }, t("settingsHint")),
    h("label", {}, h("span", {}, t("systemPrompt")), system),
    presetRow(system, keep),
    h("div", { class: "grid" }, ...fields.map((entry) => numberField(settings, entry, changed)), thinking),
    stopField(settings, changed),
    toolFields(settings, changed),
  ];
}

export function openSettings(settings: Settings, options: SettingsOptions): void {
  const key = h("input", { type: "password", name: "key", value: apiKey.get(), autocomplete: "off", spellcheck: false });
  key.addEventListener("input", () => apiKey.set(key.value.trim()));
  const reset = () => {
    for (const name of Object.keys(settings)) delete settings[name as keyof Settings];
    options.changed();
    dialog.close();
    openSettings(settings, { ...options, refused: undefined });
  };
  const resetButton = h("button", { type: "button", onclick: reset }, t("reset"));
  const dialog = openDialog(
    { title: t(options.wantsKey ? "apiKey" : "settingsOfChat"), class: "settings", closed: options.closed, left: options.wantsKey ? undefined : resetButton },
    options.wantsKey && h("p", { class: "note bad" }, h("span", {}, t(apiKey.get() ? "apiKeyWrong" : "apiKeyWanted"))),
    ...(options.wantsKey ? [] : chatFields(settings, options.changed)),
    h("label", {}, h("span", {}, t("apiKey")), key, h("small", {}, t("apiKeyHint"))),
  );
  const { refused } = options;
  const wrong = refused && dialog.querySelector<HTMLInputElement>(`[name="${CSS.escape(refused.param.split(/[.[]/)[0]!)}"]`);
  if (wrong) {
    wrong.closest("details")?.setAttribute("open", "");
    wrong.classList.add("bad");
    const reason = dialog.querySelector(`#${CSS.escape(wrong.getAttribute("aria-describedby") ?? "none")}`);
    if (reason) reason.textContent = refused.reason;
    wrong.focus();
  } else if (options.wantsKey) {
    key.focus();
  } else if (matchMedia("(pointer: coarse)").matches) {
    dialog.querySelector<HTMLElement>("button")?.focus();
  } else {
    dialog.querySelector<HTMLElement>("[name=system]")?.focus();
  }
}
