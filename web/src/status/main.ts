// The status page: the last hour from /v1/history, /metrics every second, models, and the plan from /v1/plan.

import "../style/base.css";
import "../style/models.css";
import "../style/status.css";

import { apiKey, ask, errorText, ServerError } from "../api";
import { h } from "../dom";
import { pageLink, switches } from "../frame";
import { applyLanguage, t } from "../language";
import { parseMetrics, type Sample } from "../metrics";
import { ModelList } from "../model_list";
import { listModels, type ModelRow } from "../models";
import { applyTheme } from "../theme";
import { countText, durationText } from "../units";
import { Chart } from "./chart";
import { Facts } from "./facts";
import { PlanView } from "./plan_view";
import type { Plan } from "./plan";
import { point, reading, readingsOf, thinned, windowSeconds, type History, type Point, type Reading } from "./readings";

const ranges = [300, 3600]; // seconds
const planEvery = 10; // readings

const percent = (value: number) => `${(value * 100).toLocaleString(undefined, { maximumFractionDigits: value < 0.1 ? 1 : 0 })} %`;
const seconds = (value: number) =>
  value < 1 ? `${countText(value * 1000)} ms` : `${value.toLocaleString(undefined, { maximumFractionDigits: 2 })} s`;

type Name = Exclude<keyof Point, "at">;

class StatusPage {
  private history: Reading[] = []; // of the last minute
  private points: Point[] = [];
  private samples: Sample[] = [];
  private models: ModelRow[] = [];
  private range = ranges[0]!;
  private hasHistory = false;
  private charts: { chart: Chart; lines: { label: string; name: Name }[] }[] = [];
  private planText = "";
  private views: [string, PlanView][] = [];
  private facts!: Facts;
  private modelList!: ModelList;
  private rangeButtons!: HTMLElement;
  private state!: HTMLElement;
  private plans!: HTMLElement;
  private keyForm!: HTMLElement;
  private keyText!: HTMLElement;
  private numReadings = 0;

  constructor() {
    this.build();
    void this.run();
  }

  private build(): void {
    applyLanguage();
    document.title = `${t("statusTitle")} · graft`;
    this.charts = [
      this.chart(t("requests"), countText, [[t("running"), "running"], [t("waitingRequests"), "waiting"]]),
      this.chart(t("generated"), countText, [[t("perSecond"), "generated"]]),
      this.chart(t("promptRead"), countText, [[t("perSecond"), "prompt"]]),
      this.chart(t("timeToFirst"), seconds, [[t("p50"), "p50"], [t("p99"), "p99"]]),
      this.chart(t("kvCache"), percent, [["", "kvUse"]], 1),
      this.chart(t("prefixHits"), percent, [["", "hitShare"]], 1),
    ];
    this.state = h("span", { class: "state", role: "status" });
    this.facts = new Facts();
    this.modelList = new ModelList({ changed: (models) => this.showModels(models) });
    this.plans = h("div", { class: "plans" });
    this.rangeButtons = h("div", { class: "ranges", role: "group", "aria-label": t("range") });
    this.keyForm = this.makeKeyForm();
    document.body.replaceChildren(
      h(
        "div",
        { class: "status-page" },
        h("header", { class: "status-top" }, h("a", { class: "brand", href: "/" }, "graft"), h("h1", {}, t("statusTitle")), this.state, pageLink("/", "chat", t("chat")), switches(() => this.build())),
        h("main", {}, this.keyForm, this.facts.node, this.rangeButtons, ...this.sections()),
      ),
    );
    this.showRange();
    this.facts.show(this.samples, Date.now() / 1000);
    this.modelList.show(this.models);
    this.showPlans(this.planText);
  }

  private sections(): HTMLElement[] {
    return [
      h("div", { class: "charts" }, ...this.charts.map(({ chart }) => chart.node)),
      h("p", { class: "hint" }, t("chartHint")),
      h("h2", {}, t("models")),
      this.modelList.node,
      h("h2", {}, t("plan")),
      h("p", { class: "hint" }, t("planHint")),
      this.plans,
    ];
  }

  private chart(title: string, format: (value: number) => string, lines: [string, Name][], max?: number) {
    return {
      chart: new Chart({ title, format, max }),
      lines: lines.map(([label, name]) => ({ label, name })),
    };
  }

  private makeKeyForm(): HTMLElement {
    const input = h("input", { type: "password", placeholder: t("apiKey"), "aria-label": t("apiKey"), autocomplete: "off" });
    this.keyText = h("span", {});
    const submit = (event: Event) => {
      event.preventDefault();
      apiKey.set(input.value.trim());
      void this.read();
    };
    return h("form", { class: "key-form", hidden: true, onsubmit: submit }, this.keyText, input, h("button", { class: "primary" }, t("done")));
  }

  private showRange(): void {
    const button = (range: number) =>
      h("button", { type: "button", "aria-pressed": String(range === this.range), onclick: () => ((this.range = range), this.showRange()) }, durationText(range).replace(" 0 min", ""));
    const focused = [...this.rangeButtons.children].indexOf(document.activeElement!);
    this.rangeButtons.replaceChildren(...ranges.map(button));
    if (focused >= 0) (this.rangeButtons.children[focused] as HTMLElement).focus();
    this.draw();
  }

  private draw(): void {
    const now = Date.now() / 1000;
    const times = this.points.map(({ at }) => at);
    for (const { chart, lines } of this.charts)
      chart.show({ times, now, range: this.range, lines: lines.map(({ label, name }) => ({ label, values: this.points.map((value) => value[name]) })) });
  }

  private async run(): Promise<void> {
    for (;;) {
      const start = performance.now();
      if (!document.hidden) await this.read();
      await new Promise((resolve) => setTimeout(resolve, Math.max(200, 1000 - (performance.now() - start))));
    }
  }

  private async read(): Promise<void> {
    try {
      if (!this.hasHistory) await this.readHistory();
      this.samples = parseMetrics(await (await ask("/metrics")).text());
      const now = Date.now() / 1000;
      this.add(reading(this.samples, now));
      this.points = thinned(this.points, now);
      this.draw();
      this.facts.show(this.samples, now);
      if (this.numReadings++ % planEvery === 0) {
        this.showPlans(await (await ask("/v1/plan")).text());
        this.showModels(await listModels());
      }
      this.setState(true, t("live"));
      this.keyForm.hidden = true;
    } catch (error) {
      const wantsKey = error instanceof ServerError && error.status === 401;
      this.keyForm.hidden = !wantsKey;
      if (wantsKey) this.keyText.textContent = errorText(error);
      this.setState(false, error instanceof ServerError ? errorText(error) : t("offline"));
      this.numReadings = 0; // reload the plan: the server may restart with another one
    }
  }

  private async readHistory(): Promise<void> {
    const history = (await (await ask("/v1/history")).json()) as History;
    for (const value of readingsOf(history, Date.now() / 1000)) this.add(value);
    this.hasHistory = true;
  }

  private add(now: Reading): void {
    this.points.push(point(this.history, now));
    this.history.push(now);
    this.history = this.history.filter(({ at }) => now.at - at <= windowSeconds || at === now.at);
  }

  private setState(isLive: boolean, text: string): void {
    this.state.classList.toggle("live", isLive);
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  private showModels(models: ModelRow[]): void {
    if (JSON.stringify(models) === JSON.stringify(this.models) && this.modelList.node.childNodes.length > 0) return;
    this.models = models;
    this.numReadings = 0; // a model was loaded or unloaded: the plan too is another one
    this.modelList.show(models);
  }

  private showPlans(text: string): void {
    if (text === this.planText && this.plans.childNodes.length > 0) return;
    this.planText = text;
    const models = text ? (JSON.parse(text) as { models: Plan[] }).models : [];
    // Keeps the selected modules when the plan is reloaded with new times.
    const chosen = new Map(this.views.map(([name, view]) => [name, view.chosenModule]));
    this.views = models.map((plan) => [plan.name, new PlanView(plan, chosen.get(plan.name))]);
    const nodes = this.views.map(([, view]) => view.node);
    this.plans.replaceChildren(...(nodes.length > 0 ? nodes : [h("p", { class: "hint" }, text ? t("noPlan") : "")]));
  }
}

applyTheme();
new StatusPage();
