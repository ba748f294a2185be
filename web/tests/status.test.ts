import { expect, it } from "vitest";
import { parseMetrics } from "../src/metrics";
import { roundUp } from "../src/status/scale";
import { columns, deviceText, expertTotals, layerOf, timeShades, timeText, type Placement } from "../src/status/plan";
import { bytesText, durationText } from "../src/units";
import { devicesOf, modelRows } from "../src/models";
import { factsOf } from "../src/status/facts";
import { point, reading, readingsOf, thinned } from "../src/status/readings";

const text = (tokens: number, hits: number) => `
vllm:num_requests_running{model_name="m"} 2
vllm:kv_cache_usage_perc{model_name="m"} 0.25
vllm:prefix_cache_queries_total{model_name="m"} 100
vllm:prefix_cache_hits_total{model_name="m"} ${hits}
vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} ${tokens}
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} ${tokens}
vllm:generation_tokens_total{model_name="m"} ${tokens * 11}
`;
const at = (seconds: number, tokens: number, hits = 50) => reading(parseMetrics(text(tokens, hits)), seconds);

it("makes rates of two readings", () => {
  const first = at(10, 4);
  expect(point([], first)).toMatchObject({ running: 2, kvUse: 0.25, generated: undefined, hitShare: 0.5 });
  expect(point([first], at(12, 6)).generated).toBe(11);
  expect(point([first], at(11, 0)).generated).toBe(0); // server restarted
});

it("has no rate after a long pause", () => {
  expect(point([at(10, 4)], at(200, 400)).generated).toBeUndefined();
});

it("reads the server's history in the browser's time", () => {
  const sample = { running: 1, waiting: 2, kv_cache_usage: 0.5, output_tokens: 10, prompt_tokens: 20, queried_tokens: 30, hit_tokens: 15, first_tokens: [1, 2] };
  const list = readingsOf({ now: 1000, first_token_bounds: [0.1], samples: [{ at: 990, ...sample }, { at: 995, ...sample, output_tokens: 60 }] }, 5000);
  expect(list.map((value) => value.at)).toEqual([4990, 4995]);
  expect(list[0]!.firstToken).toEqual([{ bound: 0.1, count: 1 }, { bound: Infinity, count: 2 }]);
  expect(point([list[0]!], list[1]!)).toMatchObject({ at: 4995, generated: 10, waiting: 2, hitShare: 0.5 });
});

it("keeps a point per second for five minutes and one per five seconds for an hour", () => {
  const points = Array.from({ length: 5000 }, (_, i) => ({ at: i }));
  const kept = thinned(points, 4999);
  expect(kept.filter((value) => 4999 - value.at <= 300)).toHaveLength(301);
  expect(kept.filter((value) => 4999 - value.at > 300)).toHaveLength(660);
  expect(kept[0]!.at).toBe(1399);
  expect(thinned(kept, 4999)).toEqual(kept);
});

const memory = parseMetrics(`
graft:device_memory_bytes{model_name="m",engine="0",device="cuda:0",kind="weights"} 100
graft:device_memory_bytes{model_name="m",engine="0",device="cuda:0",kind="kv_cache"} 30
graft:device_memory_bytes{model_name="m",engine="0",device="cuda:0",kind="states"} 5
graft:device_memory_bytes{model_name="m",engine="0",device="cpu",kind="weights"} 0
graft:device_memory_bytes{model_name="n",engine="0",device="cpu",kind="weights"} 7
graft:build_info{version="1.2",compiler="x"} 1
process_start_time_seconds 1000
graft:gpu_memory_used_bytes{gpu="0",uuid="u"} 1024
graft:gpu_memory_total_bytes{gpu="0",uuid="u"} 2048
graft:gpu_utilization_ratio{gpu="0",uuid="u"} 0.5
`);

it("knows size, context and devices of models", () => {
  expect(devicesOf(memory, "m")).toEqual([{ device: "cuda:0", weights: 100, cache: 35, workspace: 0 }]);
  const details = { parameter_size: "1B", quantization_level: "Q4_K", context_length: 4096 };
  const rows = modelRows([{ name: "m", size: 9, details }, { name: "o", size: 8, details }], [{ name: "m", size: 9, context_length: 512, details }], memory);
  expect(rows.map(({ name, context, isLoaded, devices }) => [name, context, isLoaded, devices.length])).toEqual([["m", 512, true, 1], ["o", 4096, false, 0]]);
});

it("shows version, uptime and GPUs", () => {
  expect(factsOf(memory, 1090)).toEqual([["Version", "graft 1.2"], ["Running for", "1 min"], ["GPU 0", "1 KiB / 2 KiB, 50 %"]]);
  expect([5, 3600, 90061].map(durationText)).toEqual(["5 s", "1 h 0 min", "1 d 1 h"]);
});

it("shows the tiers of the KV cache", () => {
  const tiers = parseMetrics(`
graft:kv_tier_capacity_bytes{model_name="a",tier="host"} 2048
graft:kv_tier_capacity_bytes{model_name="b",tier="host"} 2048
graft:kv_tier_bytes{model_name="a",tier="host"} 1024
graft:kv_tier_bytes{model_name="b",tier="host"} 0
graft:kv_tier_hits_total{model_name="a",tier="host"} 3
graft:kv_tier_hits_total{model_name="b",tier="host"} 4
graft:kv_tier_capacity_bytes{model_name="a",tier="disk"} 4096
graft:kv_tier_capacity_bytes{model_name="b",tier="disk"} 4096
graft:kv_tier_bytes{model_name="a",tier="disk"} 2048
graft:kv_tier_bytes{model_name="b",tier="disk"} 2048
`);
  expect(factsOf(tiers, 0)).toEqual([
    ["KV cache in host memory", "1 KiB / 4 KiB, 7 block hits"],
    ["KV cache on disk", "2 KiB / 4 KiB, 0 block hits"],
  ]);
});

it("falls back to all that came when nothing came lately", () => {
  const first = at(10, 4);
  expect(point([first], at(11, 4)).p50).toBeCloseTo(0.05);
  expect(point([first], at(11, 4)).hitShare).toBe(0.5);
});

function placement(module: string, weight_bytes: number): Placement {
  const device = { generate_device: "cpu", prefill_device: "cpu", out_device: "cpu" };
  return { ...device, module, class: "", role: "", generate_op: null, prefill_op: null, line: null, weight_bytes };
}

it("puts layers into columns whose areas are their bytes", () => {
  const list = columns([
    placement("model", 0),
    placement("model.embed_tokens", 500),
    placement("model.layers.0.mlp", 50),
    placement("model.layers.10.mlp", 60),
    placement("model.layers.10.norm", 40),
    placement("model.layers.2.mlp", 20),
    placement("lm_head", 10),
  ]);
  expect(list.map(({ layer, bytes, units }) => [layer, bytes, units])).toEqual([
    [undefined, 500, 5],
    [0, 50, 1],
    [2, 20, 1],
    [10, 100, 1],
    [undefined, 10, 0.1],
  ]);
  expect(columns([])).toEqual([]);
  expect(layerOf("model.layers.7")).toBe(7);
  expect(layerOf("model.norm")).toBeUndefined();
});

it("writes sizes and scales as people do", () => {
  expect(bytesText(0)).toBe("0 B");
  expect(bytesText(1536)).toBe("1.5 KiB");
  expect([0, 0.3, 1, 1.1, 7, 99, 100].map(roundUp)).toEqual([1, 0.5, 1, 2, 10, 100, 100]);
});

it("shades blocks by their time, where it was measured", () => {
  const list = [placement("a", 1), { ...placement("b", 1), seconds: 2, calls: 4 }, { ...placement("c", 1), seconds: 1, calls: 1000 }];
  expect(timeShades([placement("a", 1)])).toBeUndefined();
  const shades = timeShades(list)!;
  expect(list.map((item) => shades.get(item))).toEqual([0.15, 1, 0.15 + 0.85 / 2]);
  expect(list.map(timeText)).toEqual([undefined, "500 ms", "1 ms"]);
});

it("adds up the experts that a GPU computes", () => {
  const usage = (pairs: number, resident: number[], resident_pairs: number, streamed_bytes: number) => ({
    ...placement("experts", 1),
    expert_usage: { pairs, resident, resident_pairs, streamed_bytes },
  });
  expect(expertTotals([placement("a", 1)])).toBeUndefined();
  expect(expertTotals([usage(0, [3], 0, 0)])).toEqual({ resident: 1, hitRate: undefined, streamedBytes: 0 });
  expect(expertTotals([usage(30, [0, 3], 15, 100), placement("a", 1), usage(10, [1], 5, 20)])).toEqual({
    resident: 3,
    hitRate: 0.5,
    streamedBytes: 120,
  });
});

it("names the part of each device that runs a module", () => {
  const whole = [{ device: "cuda:0", part: null, weight_bytes: 4 }];
  const split = [
    { device: "cuda:0", part: "experts 0-15", weight_bytes: 1 },
    { device: "cpu", part: "experts 16-127", weight_bytes: 3 },
  ];
  const one = { ...placement("a", 4), prefill_device: "cuda:0" };
  expect([deviceText(one, "generate"), deviceText(one, "prefill")]).toEqual(["cpu", "cuda:0"]);
  const many = { ...one, shares: { generate: split, prefill: whole } };
  expect(deviceText(many, "generate")).toBe("cuda:0 experts 0-15 + cpu experts 16-127");
  expect(deviceText(many, "prefill")).toBe("cuda:0");
});
