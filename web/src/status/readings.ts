// The values of the status page, from one reading of /metrics per second.

import { between, buckets, largest, quantile, sum, type Bucket, type Sample } from "../metrics";

export interface Reading {
  at: number; // seconds
  running: number;
  waiting: number;
  kvUse: number; // fraction
  generated: number; // tokens so far
  prompt: number;
  queries: number; // tokens queried in the prefix cache
  hits: number;
  firstToken: Bucket[];
}

export function reading(samples: Sample[], at: number): Reading {
  return {
    at,
    running: sum(samples, "vllm:num_requests_running"),
    waiting: sum(samples, "vllm:num_requests_waiting"),
    kvUse: largest(samples, "vllm:kv_cache_usage_perc"),
    // Number of updates with tokens, counted by the two latency histograms.
    generated: sum(samples, "vllm:time_to_first_token_seconds_count") + sum(samples, "vllm:inter_token_latency_seconds_count"),
    prompt: sum(samples, "vllm:prompt_tokens_total"),
    queries: sum(samples, "vllm:prefix_cache_queries_total"),
    hits: sum(samples, "vllm:prefix_cache_hits_total"),
    firstToken: buckets(samples, "vllm:time_to_first_token_seconds"),
  };
}

export interface Point {
  running?: number;
  waiting?: number;
  kvUse?: number;
  generated?: number; // tokens/s
  prompt?: number;
  hitShare?: number;
  p50?: number; // seconds
  p99?: number;
}

export const windowSeconds = 60; // for hit rates and quantiles

// The prefix-cache hit rate of the window, or since the server's start when the window has no queries.
function hitShare(old: Reading | undefined, now: Reading): number | undefined {
  const queries = now.queries - (old?.queries ?? 0);
  if (queries > 0) return Math.max(0, now.hits - (old?.hits ?? 0)) / queries;
  return now.queries > 0 ? now.hits / now.queries : undefined;
}

// `history`: earlier readings, oldest first.
export function point(history: Reading[], now: Reading): Point {
  const last = history[history.length - 1];
  const seconds = last ? now.at - last.at : 0;
  // A counter that decreased means the server was restarted.
  const rate = (name: "generated" | "prompt") =>
    last && seconds > 0 ? Math.max(0, now[name] - last[name]) / seconds : undefined;
  const old = history.find(({ at }) => now.at - at <= windowSeconds);
  const recent = between(old?.firstToken ?? [], now.firstToken);
  return {
    running: now.running,
    waiting: now.waiting,
    kvUse: now.kvUse,
    generated: rate("generated"),
    prompt: rate("prompt"),
    hitShare: hitShare(old, now),
    p50: quantile(recent, 0.5) ?? quantile(now.firstToken, 0.5),
    p99: quantile(recent, 0.99) ?? quantile(now.firstToken, 0.99),
  };
}
