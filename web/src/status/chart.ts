// A small SVG line chart of the last minutes.

import { h, svg } from "../dom";
import { roundUp } from "./scale";

export interface Line {
  label: string;
  values: (number | undefined)[]; // one per second, the newest last; undefined: no value
}

export interface ChartOptions {
  title: string;
  note?: string;
  format: (value: number) => string;
  max?: number; // top of the scale; default: the largest value, rounded up
}

const minLength = 60; // points on the x axis; grows with the data
const width = 300;
const height = 72;

export class Chart {
  private readonly value = h("div", { class: "chart-value" });
  private readonly scale = h("span", { class: "chart-scale" });
  private readonly plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  private readonly cursor = svg("line", { class: "cursor", y1: 0, y2: height });
  private hover: number | undefined; // fraction of the width
  private lines: Line[] = [];
  readonly node: HTMLElement;

  constructor(private readonly options: ChartOptions) {
    const box = h("div", { class: "plot" }, this.plot, this.scale);
    box.addEventListener("pointermove", (event) => {
      const { left, width: size } = box.getBoundingClientRect();
      this.point((event.clientX - left) / size);
    });
    box.addEventListener("pointerleave", () => this.point(undefined));
    this.node = h("section", { class: "chart" }, h("h3", {}, options.title, options.note && h("small", {}, options.note)), this.value, box);
  }

  show(lines: Line[]): void {
    this.lines = lines;
    this.draw();
  }

  private point(share: number | undefined): void {
    this.hover = share === undefined ? undefined : Math.min(Math.max(share, 0), 1);
    this.draw();
  }

  private length(): number {
    return Math.max(minLength, ...this.lines.map(({ values }) => values.length));
  }

  private draw(): void {
    const { format } = this.options;
    const length = this.length();
    const largest = Math.max(...this.lines.flatMap(({ values }) => values.map((value) => value ?? 0)), 0);
    const max = this.options.max ?? roundUp(largest);
    this.scale.textContent = format(max);
    this.plot.replaceChildren(
      svg("line", { class: "grid", x1: 0, x2: width, y1: height / 2, y2: height / 2 }),
      svg("line", { class: "grid", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
      ...this.lines.flatMap(({ values }, i) => this.paths(values, max, i)),
    );
    const ago = this.hover === undefined ? 0 : Math.round((1 - this.hover) * (length - 1));
    if (this.hover !== undefined) {
      const x = ((length - 1 - ago) / (length - 1)) * width;
      this.cursor.setAttribute("x1", String(x));
      this.cursor.setAttribute("x2", String(x));
      this.plot.append(this.cursor);
    }
    this.value.replaceChildren(
      ...this.lines.map(({ label, values }, i) => {
        const value = values[values.length - 1 - ago];
        return h("span", { class: `series-${i}` }, h("b", { class: value === undefined ? "none" : undefined }, value === undefined ? "–" : format(value)), label && h("small", {}, label));
      }),
      this.hover !== undefined && ago > 0 ? h("small", { class: "ago" }, `−${ago} s`) : "",
    );
  }

  // One line per run of defined values; the first series also has a filled area.
  private paths(values: (number | undefined)[], max: number, series: number): SVGElement[] {
    const length = this.length();
    const out: SVGElement[] = [];
    let run: [number, number][] = [];
    const flush = () => {
      if (run.length > 0) {
        const [first, last] = [run[0]!, run[run.length - 1]!];
        const line = run.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" L");
        if (series === 0) out.push(svg("path", { class: `area series-${series}`, d: `M${first[0]},${height} L${line} L${last[0]},${height} Z` }));
        out.push(svg("path", { class: `line series-${series}`, d: `M${line}${run.length === 1 ? " h1" : ""}` }));
      }
      run = [];
    };
    values.forEach((value, i) => {
      if (value === undefined) return flush();
      const x = ((length - values.length + i) / (length - 1)) * width;
      run.push([x, height - 1 - (Math.min(value, max) / max) * (height - 4)]);
    });
    flush();
    return out;
  }
}
