// What /metrics says, in Prometheus's text form, and the numbers that the status page makes of two readings.

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

// All models together.
export function sum(samples: Sample[], name: string): number {
  return samples.reduce((total, sample) => (sample.name === name ? total + sample.value : total), 0);
}

export function largest(samples: Sample[], name: string): number {
  return samples.reduce((most, sample) => (sample.name === name ? Math.max(most, sample.value) : most), 0);
}

export interface Bucket {
  bound: number; // the upper one
  count: number; // of everything up to it
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

// What came between two readings; `before` may be empty or of a server that has restarted since.
export function between(before: Bucket[], after: Bucket[]): Bucket[] {
  const old = new Map(before.map(({ bound, count }) => [bound, count]));
  const grown = after.map(({ bound, count }) => ({ bound, count: count - (old.get(bound) ?? 0) }));
  return grown.some(({ count }) => count < 0) ? after : grown;
}

// As Prometheus's histogram_quantile: straight lines inside buckets, the last bound for what lies above it.
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
