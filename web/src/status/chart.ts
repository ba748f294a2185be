// A small SVG line chart of values over time.

import { h, svg } from "../dom";
import { t } from "../language";
import { durationText } from "../units";
import { roundUp } from "./scale";

export interface Line {
  label: string;
  values: (number | undefined)[]; // one per time; undefined: no value
}

export interface Series {
  times: number[]; // seconds, ascending
  now: number;
  range: number; // seconds on the x axis
  lines: Line[];
}

export interface ChartOptions {
  title: string;
  format: (value: number) => string;
  max?: number; // top of the scale; default: the largest value, rounded up
}

const width = 300;
const height = 72;
const maxGap = 12; // seconds between two points of a line

export class Chart {
  private readonly value = h("div", { class: "chart-value" });
  private readonly scale = h("span", { class: "chart-scale" });
  private readonly start = h("span", {});
  private readonly plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  private hover: number | undefined; // fraction of the width
  private series: Series = { times: [], now: 0, range: 1, lines: [] };
  readonly node: HTMLElement;

  constructor(private readonly options: ChartOptions) {
    const box = h("div", { class: "plot" }, this.plot, this.scale);
    box.addEventListener("pointermove", (event) => {
      const { left, width: size } = box.getBoundingClientRect();
      this.point((event.clientX - left) / size);
    });
    box.addEventListener("pointerleave", () => this.point(undefined));
    const axis = h("div", { class: "chart-axis" }, this.start, h("span", {}, t("now")));
    this.node = h("section", { class: "chart" }, h("h3", {}, options.title), this.value, box, axis);
  }

  show(series: Series): void {
    this.series = series;
    this.draw();
  }

  private point(share: number | undefined): void {
    this.hover = share === undefined ? undefined : Math.min(Math.max(share, 0), 1);
    this.draw();
  }

  private x(at: number): number {
    const { now, range } = this.series;
    return ((at - (now - range)) / range) * width;
  }

  // The index of the point at the pointer, or of the newest one.
  private chosen(): number {
    const { times, now, range } = this.series;
    if (this.hover === undefined) return times.length - 1;
    const wanted = now - range * (1 - this.hover);
    let best = times.length - 1;
    for (let i = 0; i < times.length; ++i) if (Math.abs(times[i]! - wanted) < Math.abs(times[best]! - wanted)) best = i;
    return best;
  }

  private draw(): void {
    const { format } = this.options;
    const { lines, times, now, range } = this.series;
    const isShown = times.map((at) => at >= now - range);
    const largest = Math.max(...lines.flatMap(({ values }) => values.map((value, i) => (isShown[i] ? (value ?? 0) : 0))), 0);
    const max = this.options.max ?? roundUp(largest);
    this.scale.textContent = format(max);
    this.start.textContent = `−${durationText(range)}`;
    const at = this.chosen();
    const grid = (y: number) => svg("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y });
    const x = this.x(times[at] ?? now);
    this.plot.replaceChildren(
      grid(height / 2),
      grid(height - 0.5),
      ...lines.flatMap(({ values }, i) => this.paths(values, isShown, max, i)),
      ...(this.hover === undefined ? [] : [svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2: height })]),
    );
    this.showValues(at);
  }

  private showValues(at: number): void {
    const { lines, times, now } = this.series;
    const ago = Math.round(now - (times[at] ?? now));
    const shown = lines.map(({ label, values }, i) => {
      const value = values[at];
      const number = h("b", { class: value === undefined ? "none" : undefined }, value === undefined ? "–" : this.options.format(value));
      const swatch = lines.length > 1 ? h("i", { class: `swatch series-${i}` }) : undefined;
      return h("span", {}, number, label || swatch ? h("small", {}, swatch, label) : undefined);
    });
    this.value.replaceChildren(...shown, this.hover !== undefined && ago > 0 ? h("small", { class: "ago" }, `−${durationText(ago)}`) : "");
  }

  // One line per run of values without a gap; the first series also has a filled area.
  private paths(values: (number | undefined)[], isShown: boolean[], max: number, series: number): SVGElement[] {
    const { times } = this.series;
    const out: SVGElement[] = [];
    let run: [number, number][] = [];
    const flush = () => {
      if (run.length > 0) {
        const [first, last] = [run[0]!, run[run.length - 1]!];
        const line = run.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" L");
        if (series === 0) out.push(svg("path", { class: `area series-${series}`, d: `M${first[0].toFixed(1)},${height} L${line} L${last[0].toFixed(1)},${height} Z` }));
        out.push(svg("path", { class: `line series-${series}`, d: `M${line}${run.length === 1 ? " h1" : ""}` }));
      }
      run = [];
    };
    let last = -Infinity;
    values.forEach((value, i) => {
      const at = times[i]!;
      if (!isShown[i]) return;
      if (value === undefined || at - last > maxGap) flush();
      last = at;
      if (value !== undefined) run.push([this.x(at), height - 1 - (Math.min(value, max) / max) * (height - 4)]);
    });
    flush();
    return out;
  }
}
