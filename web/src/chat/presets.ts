// System prompts that can be chosen: some of the page, and those that the user saved.

import { h } from "../dom";
import { t } from "../language";
import { local } from "../local";

function saved(): string[] {
  try {
    const list = JSON.parse(local.get("presets") ?? "[]") as unknown;
    return Array.isArray(list) ? list.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

const nameOf = (text: string) => text.trim().replace(/\s+/g, " ").slice(0, 50);

// `area` holds the prompt; `changed` is called when a preset was written into it.
export function presetRow(area: HTMLTextAreaElement, changed: () => void): HTMLElement {
  const select = h("select", { name: "preset", "aria-label": t("presets") });
  const save = h("button", { type: "button" }, t("savePreset"));
  const remove = h("button", { type: "button" }, t("deletePreset"));
  const builtIn = [t("presetBrief"), t("presetThink"), t("presetTeacher"), t("presetTranslate")];
  const show = () => {
    const text = area.value.trim();
    const own = saved();
    const option = (value: string) => h("option", { value }, nameOf(value));
    const mine = h("optgroup", { label: t("ownPresets") }, ...own.map(option));
    select.replaceChildren(h("option", { value: "" }, t("presets")), ...builtIn.map(option), ...(own.length > 0 ? [mine] : []));
    select.value = [...own, ...builtIn].includes(text) ? text : "";
    save.disabled = text === "" || own.includes(text) || builtIn.includes(text);
    remove.hidden = !own.includes(text);
  };
  const store = (list: string[]) => {
    local.set("presets", JSON.stringify(list));
    show();
  };
  select.addEventListener("change", () => {
    area.value = select.value;
    changed();
    show();
  });
  save.addEventListener("click", () => store([...saved(), area.value.trim()]));
  remove.addEventListener("click", () => store(saved().filter((text) => text !== area.value.trim())));
  area.addEventListener("input", show);
  show();
  return h("div", { class: "presets" }, select, save, remove);
}
