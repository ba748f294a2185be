// Draws the plan: a column per layer, a block per module, coloured by device.

import { h, svg } from "../dom";
import { t } from "../language";
import type { TextKey } from "../texts/en";
import { bytesText } from "../units";
import { columns, deviceText, expertTotals, timeShades, timeText, type Column, type ExpertTotals, type Placement, type Plan } from "./plan";

const height = 240;
const minUnit = 9; // pixels per layer; narrower plans scroll
const maxUnit = 200;
const gap = 2;

// The colour class of a device in status.css, by order of first use.
export function deviceClass(devices: string[], device: string): string {
  return `device-${device === "cpu" ? "cpu" : devices.filter((name) => name !== "cpu").indexOf(device) % 7}`;
}

// Opacity by module type, so that neighbours on one device can be told apart.
const shades: [RegExp, number, TextKey][] = [
  [/expert/, 1, "shadeExperts"],
  [/mlp|gate|up|down|feed|ffn/, 0.88, "shadeMlp"],
  [/attn|attention|q_proj|k_proj|v_proj|o_proj|qkv|kv_/, 0.66, "shadeAttention"],
  [/embed|lm_head|output/, 0.78, "shadeEmbedding"],
];
const otherShade = 0.5;

function shade(placement: Placement): number {
  return shades.find(([pattern]) => pattern.test(placement.module))?.[1] ?? otherShade;
}

// What the shades mean, of those that occur, the strongest first.
function shadeLegend(placements: Placement[], name: string): HTMLElement {
  const used = new Set(placements.filter(({ weight_bytes }) => weight_bytes > 0).map(shade));
  const rows: [number, TextKey][] = [...shades.map(([, value, key]): [number, TextKey] => [value, key]), [otherShade, "shadeOther"]];
  const sorted = rows.filter(([value]) => used.has(value)).sort(([a], [b]) => b - a);
  const swatch = (value: number) => {
    const node = h("i", { class: name });
    node.style.opacity = String(value);
    return node;
  };
  return h("ul", { class: "legend shades" }, ...sorted.map(([value, key]) => h("li", {}, swatch(value), h("span", {}, t(key)))));
}

const labelWidth = 54; // pixels; narrower blocks have no name
const labelHeight = 14;

// "model.layers.3.mlp.experts": "experts"; "model.layers.3.mlp.experts.gate": "experts.gate".
function shortName(module: string): string {
  const parts = module.split(".").filter((part) => !/^\d+$/.test(part));
  return parts.slice(-1)[0] ?? module;
}

function expertRows({ resident, hitRate, streamedBytes }: ExpertTotals): [string, string][] {
  const percent = hitRate?.toLocaleString(undefined, { style: "percent", maximumFractionDigits: 1 });
  return [
    [t("residentExperts"), resident.toLocaleString()],
    [t("expertHits"), percent ?? t("none")],
    [t("streamedBytes"), bytesText(streamedBytes)],
  ];
}

function describe(placement: Placement): [string, string][] {
  const { generate_op, prefill_op } = placement;
  const op = [generate_op ?? placement.class];
  if (prefill_op && prefill_op !== generate_op) op.push(t("prefill", { what: prefill_op }));
  const device = [deviceText(placement, "generate")];
  const prefill = deviceText(placement, "prefill");
  if (prefill !== device[0]) device.push(t("prefill", { what: prefill }));
  const rows: [string, string][] = [
    [t("operator"), op.join(", ")],
    [t("device"), device.join(", ")],
    [t("weights"), bytesText(placement.weight_bytes)],
  ];
  if (placement.dtype) rows.push([t("type"), placement.dtype]);
  const time = timeText(placement);
  if (time) rows.push([t("time"), time]);
  const experts = expertTotals([placement]);
  if (experts) rows.push(...expertRows(experts));
  rows.push([t("role"), placement.role], [t("rule"), placement.line === null ? t("ruleDefault") : t("ruleLine", { line: placement.line })]);
  return rows;
}

export class PlanView {
  private readonly detail = h("div", { class: "plan-detail", "aria-live": "polite" });
  private readonly scroller = h("div", { class: "plan-scroll" });
  private readonly columns: Column[];
  private readonly devices: string[];
  private readonly blocks = new Map<Placement, SVGElement>();
  private readonly times: Map<Placement, number> | undefined;
  private chosen: Placement | undefined;
  private drawnWidth = 0;
  readonly node: HTMLElement;

  // `chosen`: the initially selected module.
  constructor(plan: Plan, chosen?: string) {
    this.columns = columns(plan.placements);
    this.times = timeShades(plan.placements);
    this.devices = Object.keys(plan.weight_bytes);
    const legend = h("ul", { class: "legend" });
    for (const [device, bytes] of Object.entries(plan.weight_bytes)) {
      if (bytes > 0) legend.append(h("li", {}, h("i", { class: deviceClass(this.devices, device) }), h("b", {}, device), h("span", {}, bytesText(bytes))));
    }
    const layers = this.columns.filter(({ layer }) => layer !== undefined).length;
    const modules = this.columns.reduce((count, column) => count + column.placements.length, 0);
    const experts = expertTotals(plan.placements);
    this.node = h(
      "section",
      { class: "plan" },
      h("header", {}, h("h3", {}, plan.name), h("small", {}, t("planModules", { modules, layers })), legend),
      ...(experts ? [h("p", { class: "hint" }, expertRows(experts).map(([name, value]) => `${name}: ${value}`).join(" · "))] : []),
      this.times ? h("p", { class: "hint" }, t("planTimes")) : shadeLegend(plan.placements, deviceClass(this.devices, plan.placements[0]?.generate_device ?? "cpu")),
      this.scroller,
      this.detail,
    );
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.choose(plan.placements.find(({ module }) => module === chosen));
  }

  get chosenModule(): string | undefined {
    return this.chosen?.module;
  }

  private draw(): void {
    const room = this.scroller.clientWidth;
    if (room === 0 || room === this.drawnWidth) return;
    this.drawnWidth = room;
    const units = this.columns.reduce((total, column) => total + column.units, 0);
    const unit = Math.min(Math.max((room - this.columns.length * gap) / units, minUnit), maxUnit);
    const largest = Math.max(...this.columns.map(({ bytes, units: wide }) => bytes / wide), 1);
    const picture = svg("svg", { role: "group", "aria-label": t("plan") });
    this.blocks.clear();
    let x = 0;
    for (const column of this.columns) {
      const width = Math.max(column.units * unit, 3);
      this.drawColumn(picture, column, x, width, (height / (largest * column.units)) * ((column.units * unit) / width));
      x += width + gap;
    }
    picture.setAttribute("width", String(Math.ceil(x)));
    picture.setAttribute("height", String(height + 18));
    this.scroller.replaceChildren(picture);
    this.mark();
  }

  private drawColumn(picture: SVGElement, column: Column, x: number, width: number, scale: number): void {
    let y = height;
    for (const placement of column.placements) {
      const size = placement.weight_bytes * scale;
      y -= size;
      const rect = svg("rect", {
        x: x.toFixed(2),
        y: y.toFixed(2),
        width: width.toFixed(2),
        height: Math.max(size - (size > 3 ? 1 : 0), 0.5).toFixed(2),
        class: deviceClass(this.devices, placement.generate_device),
        "fill-opacity": this.times?.get(placement) ?? shade(placement),
        role: "img",
        tabindex: -1,
        "aria-label": [placement.module, ...describe(placement).map(([name, value]) => `${name}: ${value}`)].join(", "),
      });
      rect.addEventListener("pointerenter", () => this.choose(placement));
      rect.addEventListener("focus", () => this.choose(placement));
      this.blocks.set(placement, rect);
      picture.append(rect);
      const text = shortName(placement.module);
      const isNamed = width >= labelWidth && size >= labelHeight && text.length * 6.5 < width;
      if (isNamed) picture.append(this.label(text, x + width / 2, y + size / 2 + 4, "block-name"));
    }
    const { layer } = column;
    if (layer === undefined ? width >= 40 : layer % 5 === 0 || width >= 24)
      picture.append(this.label(layer === undefined ? t(this.columns[0] === column ? "beforeLayers" : "afterLayers") : String(layer), x + width / 2, height + 14));
  }

  private label(text: string, x: number, y: number, name = ""): SVGElement {
    const node = svg("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": "middle", class: name, "aria-hidden": "true" });
    node.textContent = text;
    return node;
  }

  private choose(placement: Placement | undefined): void {
    this.chosen = placement;
    this.mark();
    if (!placement) {
      this.detail.replaceChildren(h("p", { class: "hint" }, t("pickBlock")));
      return;
    }
    const list = h("dl", {});
    for (const [name, value] of describe(placement)) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    this.detail.replaceChildren(h("code", {}, placement.module), list);
  }

  // Roving tabindex: Tab reaches one block, the arrow keys move between blocks.
  private mark(): void {
    const reachable = this.chosen ?? this.columns[0]?.placements[0];
    for (const [placement, block] of this.blocks) {
      block.setAttribute("tabindex", placement === reachable ? "0" : "-1");
      block.classList.toggle("chosen", placement === this.chosen);
    }
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    const from = this.chosen;
    if (!move || !from) return;
    event.preventDefault();
    const at = this.columns.findIndex(({ placements }) => placements.includes(from));
    const column = this.columns[at + move[0]];
    const row = this.columns[at]!.placements.indexOf(from) + move[1];
    if (!column) return;
    const to = column.placements[Math.min(Math.max(row, 0), column.placements.length - 1)]!;
    (this.blocks.get(to) as SVGElement & HTMLElement).focus();
  }
}
