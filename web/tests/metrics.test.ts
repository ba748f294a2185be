import { expect, it } from "vitest";
import { between, buckets, largest, parseMetrics, quantile, sum } from "../src/metrics";

const text = `# HELP vllm:num_requests_running Sequences that are being computed.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="a",engine="0"} 2
vllm:num_requests_running{model_name="b \\"x\\\\y\\n}",engine="0"} 3.5
t_bucket{le="0.1"} 0
t_bucket{le="1.0"} 8
t_bucket{le="+Inf"} 10
t_sum 12
bare 1e3 1700000000
broken{ 1
`;

it("reads samples and labels", () => {
  const samples = parseMetrics(text);
  expect(sum(samples, "vllm:num_requests_running")).toBe(5.5);
  expect(largest(samples, "vllm:num_requests_running")).toBe(3.5);
  expect(samples[1]!.labels.model_name).toBe('b "x\\y\n}');
  expect(sum(samples, "bare")).toBe(1000);
  expect(sum(samples, "nothing")).toBe(0);
});

it("finds quantiles as Prometheus does", () => {
  const list = buckets(parseMetrics(text), "t");
  expect(list.map(({ count }) => count)).toEqual([0, 8, 10]);
  expect(quantile(list, 0.4)).toBeCloseTo(0.55);
  expect(quantile(list, 0.99)).toBe(1);
  expect(quantile([], 0.5)).toBeUndefined();
  expect(quantile(between(list, list), 0.5)).toBeUndefined();
  const more = list.map(({ bound, count }) => ({ bound, count: count + (bound >= 1 ? 2 : 0) }));
  expect(quantile(between(list, more), 0.5)).toBeCloseTo(0.55);
  expect(between(more, list)).toEqual(list); // restarted
});
