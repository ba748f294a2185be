// The list of models with size, devices and buttons that load and unload them. On both pages.

import { errorText } from "./api";
import { h, toast } from "./dom";
import { t } from "./language";
import { listModels, loadModel, unloadModel, type ModelRow } from "./models";
import { bytesText } from "./units";

export function modelText(model: ModelRow): string {
  const parts = [bytesText(model.bytes), model.quantization];
  parts.push(model.devices.length > 0 ? model.devices.map(({ device }) => device).join(" + ") : t("notLoaded"));
  return parts.join(" · ");
}

export interface ModelListOptions {
  chosen?: () => string;
  choose?: (name: string) => void; // without it, rows are not buttons
  changed: (models: ModelRow[]) => void; // a model was loaded or unloaded
}

export class ModelList {
  readonly node = h("ul", { class: "models", "aria-label": t("models") });
  private busy = "";

  constructor(private readonly options: ModelListOptions) {}

  show(models: ModelRow[]): void {
    const had = this.node.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : undefined;
    this.node.replaceChildren(...models.map((model) => this.row(model)));
    if (models.length === 0) this.node.append(h("li", { class: "hint" }, t("noModels")));
    if (had) [...this.node.querySelectorAll<HTMLElement>("button")].find((button) => button.dataset.key === had)?.focus();
  }

  private row(model: ModelRow): HTMLElement {
    const { choose, chosen } = this.options;
    const isChosen = chosen?.() === model.name;
    const text = [h("b", {}, model.name), h("small", {}, this.describe(model))];
    const main = choose
      ? h("button", { type: "button", class: "model-name", "data-key": `choose ${model.name}`, "aria-pressed": String(isChosen), onclick: () => choose(model.name) }, ...text)
      : h("div", { class: "model-name" }, ...text);
    const isBusy = this.busy === model.name;
    const label = t(isBusy ? "working" : model.isLoaded ? "unload" : "load");
    const change = h(
      "button",
      { type: "button", class: "model-load", "data-key": `load ${model.name}`, disabled: this.busy !== "", "aria-label": `${label}: ${model.name}`, onclick: () => void this.change(model) },
      label,
    );
    return h("li", { class: `model${isChosen ? " chosen" : ""}${model.isLoaded ? " loaded" : ""}` }, main, change);
  }

  private describe(model: ModelRow): string {
    const parts = [`${model.parameters} ${t("parameters")}`, model.quantization, bytesText(model.bytes), t("contextOf", { count: model.context.toLocaleString() })];
    for (const { device, weights, cache } of model.devices) parts.push(t("onDevice", { device, weights: bytesText(weights), cache: bytesText(cache) }));
    if (!model.isLoaded) parts.push(t("notLoaded"));
    return parts.join(" · ");
  }

  private async change(model: ModelRow): Promise<void> {
    this.busy = model.name;
    try {
      this.show(await listModels());
      await (model.isLoaded ? unloadModel(model.name) : loadModel(model.name));
      await this.settled(model.name, !model.isLoaded);
    } catch (error) {
      toast(errorText(error));
    }
    this.busy = "";
    try {
      const models = await listModels();
      this.show(models);
      this.options.changed(models);
    } catch {
      // The page reports that the server cannot be reached.
    }
  }

  // A model is unloaded as soon as its requests have ended.
  private async settled(name: string, isLoaded: boolean): Promise<void> {
    for (let i = 0; i < 20; ++i) {
      const model = (await listModels()).find((row) => row.name === name);
      if (!model || model.isLoaded === isLoaded) return;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}
