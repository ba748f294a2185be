// The button with the model of a chat, and the dialog in which one is chosen, loaded or unloaded.

import { openDialog } from "../dialog";
import { h, icon } from "../dom";
import { t } from "../language";
import { ModelList, modelText } from "../model_list";
import type { ModelRow } from "../models";

export interface PickerActions {
  current: () => string;
  choose: (name: string) => void;
  changed: (models: ModelRow[]) => void;
  closed: () => void;
}

export class Picker {
  private readonly name = h("b", {});
  private readonly about = h("small", {});
  private models: ModelRow[] = [];
  readonly node = h("button", { type: "button", id: "model", class: "chooser", "aria-haspopup": "dialog", onclick: () => this.open() }, h("span", {}, this.name, this.about), icon("chevron"));

  constructor(private readonly actions: PickerActions) {}

  show(models: ModelRow[]): void {
    this.models = models;
    const name = this.actions.current();
    const model = models.find((row) => row.name === name);
    this.name.textContent = name || t("noModels");
    this.about.textContent = model ? modelText(model) : "";
    this.node.title = t("model");
  }

  private open(): void {
    const list = new ModelList({
      chosen: this.actions.current,
      choose: (name) => {
        this.actions.choose(name);
        dialog.close();
      },
      changed: this.actions.changed,
    });
    list.show(this.models);
    const dialog = openDialog({ title: t("models"), class: "picker", closed: this.actions.closed }, list.node);
    list.node.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
  }
}
