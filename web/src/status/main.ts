// The status page: /metrics every second, and the plan from /v1/plan.

import "../style/base.css";
import "../style/status.css";

import { apiKey, ask, errorText, ServerError } from "../api";
import { h } from "../dom";
import { pageLink, switches } from "../frame";
import { applyLanguage, t } from "../language";
import { parseMetrics } from "../metrics";
import { applyTheme } from "../theme";
import { Chart } from "./chart";
import { PlanView } from "./plan_view";
import type { Plan } from "./plan";
import { point, reading, windowSeconds, type Point, type Reading } from "./readings";

const minutes = 5;
const length = minutes * 60; // points
const planEvery = 10; // readings

const plain = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 });
const percent = (value: number) => `${(value * 100).toLocaleString(undefined, { maximumFractionDigits: value < 0.1 ? 1 : 0 })} %`;
const seconds = (value: number) =>
  value < 1 ? `${plain(value * 1000)} ms` : `${value.toLocaleString(undefined, { maximumFractionDigits: 2 })} s`;

class StatusPage {
  private history: Reading[] = [];
  private points: Point[] = [];
  private charts: { chart: Chart; lines: { label: string; name: keyof Point }[] }[] = [];
  private planText = "";
  private views: [string, PlanView][] = [];
  private state!: HTMLElement;
  private plans!: HTMLElement;
  private keyForm!: HTMLElement;
  private numReadings = 0;

  constructor() {
    this.build();
    void this.run();
  }

  private build(): void {
    applyLanguage();
    document.title = `${t("statusTitle")} · graft`;
    this.charts = [
      this.chart(t("requests"), plain, [[t("running"), "running"], [t("waitingRequests"), "waiting"]]),
      this.chart(t("generated"), plain, [[t("perSecond"), "generated"]]),
      this.chart(t("promptRead"), plain, [[t("perSecond"), "prompt"]]),
      this.chart(t("timeToFirst"), seconds, [[t("p50"), "p50"], [t("p99"), "p99"]]),
      this.chart(t("kvCache"), percent, [["", "kvUse"]], 1),
      this.chart(t("prefixHits"), percent, [["", "hitShare"]], 1),
    ];
    this.state = h("span", { class: "state", role: "status" });
    this.plans = h("div", { class: "plans" });
    this.keyForm = this.makeKeyForm();
    document.body.replaceChildren(
      h(
        "div",
        { class: "status-page" },
        h("header", { class: "status-top" }, h("a", { class: "brand", href: "/" }, "graft"), h("h1", {}, t("statusTitle")), this.state, pageLink("/", "chat", t("chat")), switches(() => this.build())),
        this.keyForm,
        h("div", { class: "charts" }, ...this.charts.map(({ chart }) => chart.node)),
        h("p", { class: "hint" }, t("lastMinutes", { count: minutes })),
        h("h2", {}, t("plan")),
        h("p", { class: "hint" }, t("planHint")),
        this.plans,
      ),
    );
    this.draw();
    this.showPlans(this.planText);
  }

  private chart(title: string, format: (value: number) => string, lines: [string, keyof Point][], max?: number) {
    return {
      chart: new Chart({ title, format, max }),
      lines: lines.map(([label, name]) => ({ label, name })),
    };
  }

  private makeKeyForm(): HTMLElement {
    const input = h("input", { type: "password", placeholder: t("apiKey"), "aria-label": t("apiKey"), autocomplete: "off" });
    const submit = (event: Event) => {
      event.preventDefault();
      apiKey.set(input.value.trim());
      void this.read();
    };
    return h("form", { class: "key-form", hidden: true, onsubmit: submit }, h("span", {}, t("apiKeyWanted")), input, h("button", { class: "primary" }, t("done")));
  }

  private draw(): void {
    for (const { chart, lines } of this.charts)
      chart.show(lines.map(({ label, name }) => ({ label, values: this.points.map((value) => value[name]) })));
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
      const samples = parseMetrics(await (await ask("/metrics")).text());
      const now = reading(samples, performance.now() / 1000);
      this.add(now);
      if (this.numReadings++ % planEvery === 0) this.showPlans(await (await ask("/v1/plan")).text());
      this.setState(true, t("live"));
      this.keyForm.hidden = true;
    } catch (error) {
      const wantsKey = error instanceof ServerError && error.status === 401;
      this.keyForm.hidden = !wantsKey;
      this.setState(false, error instanceof ServerError ? errorText(error) : t("offline"));
      this.numReadings = 0; // reload the plan: the server may restart with another one
    }
  }

  // A pause (hidden window, unreachable server) leaves a gap of the same length.
  private add(now: Reading): void {
    const last = this.history[this.history.length - 1];
    const missed = last ? Math.min(length, Math.round(now.at - last.at) - 1) : 0;
    for (let i = 0; i < missed; ++i) this.points.push({});
    this.points.push(point(this.history, now));
    this.points = this.points.slice(-length);
    this.history.push(now);
    this.history = this.history.filter(({ at }) => now.at - at <= windowSeconds || at === now.at);
    this.draw();
  }

  private setState(isLive: boolean, text: string): void {
    this.state.classList.toggle("live", isLive);
    this.state.textContent = text;
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
