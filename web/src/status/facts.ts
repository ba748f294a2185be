// The process and the GPUs in numbers: version, uptime, memory, utilization.

import { h } from "../dom";
import { t } from "../language";
import type { Sample } from "../metrics";
import { bytesText, durationText } from "../units";

export function factsOf(samples: Sample[], now: number): [string, string][] {
  const value = (name: string) => samples.find((sample) => sample.name === name)?.value;
  const version = samples.find(({ name }) => name === "graft:build_info")?.labels.version;
  const [start, resident, connections] = ["process_start_time_seconds", "process_resident_memory_bytes", "graft:connections"].map(value);
  const rows: [string, string | undefined][] = [
    [t("version"), version && `graft ${version}`],
    [t("uptime"), start === undefined ? undefined : durationText(Math.max(0, now - start))],
    [t("processMemory"), resident === undefined ? undefined : bytesText(resident)],
    [t("connections"), connections?.toLocaleString()],
    ...tierRows(samples),
    ...gpuRows(samples),
  ];
  return rows.filter((row): row is [string, string] => row[1] !== undefined);
}

// The KV cache in host memory, of all models, and on disk, which they share.
function tierRows(samples: Sample[]): [string, string][] {
  return ["host", "disk"].flatMap((tier): [string, string][] => {
    const of = (name: string) => samples.filter((sample) => sample.name === name && sample.labels.tier === tier).map(({ value }) => value);
    const join = (values: number[]) => (tier === "disk" ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0));
    const capacity = of("graft:kv_tier_capacity_bytes");
    if (capacity.length === 0) return [];
    const hits = of("graft:kv_tier_hits_total").reduce((sum, value) => sum + value, 0);
    const used = `${bytesText(join(of("graft:kv_tier_bytes")))} / ${bytesText(join(capacity))}`;
    return [[t(tier === "host" ? "kvHost" : "kvDisk"), `${used}, ${t("kvHits", { hits: hits.toLocaleString() })}`]];
  });
}

function gpuRows(samples: Sample[]): [string, string][] {
  const gpus = samples.filter(({ name }) => name === "graft:gpu_memory_used_bytes").map(({ labels }) => labels.gpu ?? "");
  return gpus.map((gpu) => {
    const of = (name: string) => samples.find((sample) => sample.name === name && sample.labels.gpu === gpu)?.value;
    const total = of("graft:gpu_memory_total_bytes");
    const parts = [`${bytesText(of("graft:gpu_memory_used_bytes") ?? 0)}${total === undefined ? "" : ` / ${bytesText(total)}`}`];
    const use = of("graft:gpu_utilization_ratio");
    if (use !== undefined) parts.push(`${Math.round(use * 100)} %`);
    return [`GPU ${gpu}`, parts.join(", ")];
  });
}

export class Facts {
  readonly node = h("dl", { class: "facts" });

  show(samples: Sample[], now: number): void {
    this.node.replaceChildren(...factsOf(samples, now).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }
}
