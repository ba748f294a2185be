// Parses /metrics (Prometheus text format) and computes sums, differences and quantiles.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const line = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/;
const label = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const escapes: Record<string, string> = { n: "\n", "\\": "\\", '"': '"' };

function numberOf(text: string): number {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const row of text.split("\n")) {
    if (row.startsWith("#")) continue;
    const match = line.exec(row);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(label))
      labels[name!] = value!.replace(/\\(.)/g, (_, char: string) => escapes[char] ?? char);
    samples.push({ name: match[1]!, labels, value: numberOf(match[3]!) });
  }
  return samples;
}

// The sum over all models.
export function sum(samples: Sample[], name: string): number {
  return samples.reduce((total, sample) => (sample.name === name ? total + sample.value : total), 0);
}

export function largest(samples: Sample[], name: string): number {
  return samples.reduce((max, sample) => (sample.name === name ? Math.max(max, sample.value) : max), 0);
}

export interface Bucket {
  bound: number; // upper bound
  count: number; // cumulative: values up to the bound
}

export function buckets(samples: Sample[], name: string): Bucket[] {
  const counts = new Map<number, number>();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket`) continue;
    const bound = numberOf(sample.labels.le ?? "");
    counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
  }
  return [...counts].map(([bound, count]) => ({ bound, count })).sort((a, b) => a.bound - b.bound);
}

// The counts between two readings; `before` may be empty or from before a server restart.
export function between(before: Bucket[], after: Bucket[]): Bucket[] {
  const old = new Map(before.map(({ bound, count }) => [bound, count]));
  const grown = after.map(({ bound, count }) => ({ bound, count: count - (old.get(bound) ?? 0) }));
  return grown.some(({ count }) => count < 0) ? after : grown;
}

// Like Prometheus's histogram_quantile: linear interpolation inside buckets; the last finite bound for values above.
export function quantile(list: Bucket[], share: number): number | undefined {
  const total = list[list.length - 1]?.count ?? 0;
  if (total <= 0) return undefined;
  const rank = share * total;
  let lower = 0;
  let below = 0;
  for (const { bound, count } of list) {
    if (count >= rank && count > below) {
      if (bound === Infinity) return lower;
      return lower + (bound - lower) * ((rank - below) / (count - below));
    }
    lower = bound === Infinity ? lower : bound;
    below = count;
  }
  return lower;
}
