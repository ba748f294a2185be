// The plan of /v1/plan and its layout as columns.

// What one device does of a module.
export interface Share {
  device: string;
  part: string | null; // "experts 0-15"; null: the whole module
  weight_bytes: number;
}

export type Phase = "generate" | "prefill";

// Experts in host memory that a GPU computes too. A pair is a token with one of its experts.
export interface ExpertUsage {
  pairs: number;
  resident: number[]; // experts with a copy in GPU memory
  resident_pairs: number;
  streamed_bytes: number;
}

export interface Placement {
  module: string;
  class: string;
  role: string;
  generate_op: string | null;
  prefill_op: string | null;
  generate_device: string;
  prefill_device: string;
  out_device: string;
  shares?: Record<Phase, Share[]>;
  line: number | null;
  weight_bytes: number;
  dtype?: string | null; // "Q4_K, Q6_K"; null: no weights
  seconds?: number; // total over all calls; only with --profile
  calls?: number;
  expert_usage?: ExpertUsage;
}

export interface Plan {
  name: string;
  model: string;
  family: string;
  placements: Placement[];
  weight_bytes: Record<string, number>; // by device
}

export interface Column {
  layer?: number; // undefined: outside the layers
  bytes: number;
  units: number; // width relative to a layer
  placements: Placement[];
}

// "model.layers.12.mlp.up_proj" or "blk.12.ffn_up": 12.
export function layerOf(module: string): number | undefined {
  const match = /(?:^|\.)(?:layers|blk|h|blocks)\.(\d+)(?:\.|$)/.exec(module);
  return match ? Number(match[1]) : undefined;
}

// One column per layer, one for the modules before the layers and one for those after. Area is proportional to
// bytes: layer columns have the same width and a height by size; the other two have full height and a width by size.
export function columns(placements: Placement[]): Column[] {
  const layers = new Map<number, Column>();
  const before: Column = { bytes: 0, units: 0, placements: [] };
  const after: Column = { bytes: 0, units: 0, placements: [] };
  for (const placement of placements) {
    if (!placement.weight_bytes) continue;
    const layer = layerOf(placement.module);
    let column = layers.size === 0 ? before : after;
    if (layer !== undefined) {
      column = layers.get(layer) ?? { layer, bytes: 0, units: 1, placements: [] };
      layers.set(layer, column);
    }
    column.placements.push(placement);
    column.bytes += placement.weight_bytes;
  }
  const list = [...layers.values()].sort((a, b) => a.layer! - b.layer!);
  const largest = Math.max(...list.map(({ bytes }) => bytes), 1);
  for (const column of [before, after]) column.units = list.length > 0 ? column.bytes / largest : 1;
  return [before, ...list, after].filter(({ bytes }) => bytes > 0);
}

// Opacity of each block, 0.15 to 1 by its share of the longest module time. undefined: no times were measured.
export function timeShades(placements: Placement[]): Map<Placement, number> | undefined {
  const blocks = placements.filter(({ weight_bytes }) => weight_bytes > 0);
  const longest = Math.max(...blocks.map(({ seconds }) => seconds ?? 0), 0);
  if (longest === 0) return undefined;
  return new Map(blocks.map((placement) => [placement, 0.15 + 0.85 * ((placement.seconds ?? 0) / longest)]));
}

// Mean time of one call: "1.25 ms".
export function timeText(placement: Placement): string | undefined {
  if (!placement.calls || placement.seconds === undefined) return undefined;
  const milliseconds = (placement.seconds / placement.calls) * 1000;
  return `${milliseconds.toLocaleString(undefined, { maximumSignificantDigits: 3 })} ms`;
}

export interface ExpertTotals {
  resident: number; // experts with a copy in GPU memory
  hitRate?: number; // the share of the pairs that the copies served; undefined: no pairs yet
  streamedBytes: number;
}

// Of some modules together. undefined: none has experts that a GPU computes with weights in host memory.
export function expertTotals(placements: Placement[]): ExpertTotals | undefined {
  const usages = placements.flatMap(({ expert_usage }) => expert_usage ?? []);
  if (usages.length === 0) return undefined;
  const sum = (of: (usage: ExpertUsage) => number) => usages.reduce((total, usage) => total + of(usage), 0);
  const pairs = sum((usage) => usage.pairs);
  return {
    resident: sum(({ resident }) => resident.length),
    hitRate: pairs > 0 ? sum((usage) => usage.resident_pairs) / pairs : undefined,
    streamedBytes: sum((usage) => usage.streamed_bytes),
  };
}

// The device of a phase; for a module on several, each with its part: "cuda:0 experts 0-15 + cpu experts 16-127".
export function deviceText(placement: Placement, phase: Phase): string {
  const shares = placement.shares?.[phase] ?? [];
  if (shares.length < 2) return phase === "generate" ? placement.generate_device : placement.prefill_device;
  return shares.map(({ device, part }) => (part === null ? device : `${device} ${part}`)).join(" + ");
}
