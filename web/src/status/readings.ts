// The values of the status page: from /v1/history, then from one reading of /metrics per second.

import { between, buckets, largest, quantile, sum, type Bucket, type Sample } from "../metrics";

export interface Reading {
  at: number; // Unix time in seconds
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
    generated: sum(samples, "vllm:generation_tokens_total"),
    prompt: sum(samples, "vllm:prompt_tokens_total"),
    queries: sum(samples, "vllm:prefix_cache_queries_total"),
    hits: sum(samples, "vllm:prefix_cache_hits_total"),
    firstToken: buckets(samples, "vllm:time_to_first_token_seconds"),
  };
}

// The body of /v1/history.
export interface History {
  now: number; // the server's clock
  first_token_bounds: number[];
  samples: {
    at: number;
    running: number;
    waiting: number;
    kv_cache_usage: number;
    output_tokens: number;
    prompt_tokens: number;
    queried_tokens: number;
    hit_tokens: number;
    first_tokens: number[];
  }[];
}

// Oldest first, in the time of this browser's clock: `now`.
export function readingsOf({ samples, first_token_bounds, now: there }: History, now: number): Reading[] {
  const bounds = [...first_token_bounds, Infinity];
  return samples.map((sample) => ({
    at: sample.at + now - there,
    running: sample.running,
    waiting: sample.waiting,
    kvUse: sample.kv_cache_usage,
    generated: sample.output_tokens,
    prompt: sample.prompt_tokens,
    queries: sample.queried_tokens,
    hits: sample.hit_tokens,
    firstToken: bounds.map((bound, i) => ({ bound, count: sample.first_tokens[i] ?? 0 })),
  }));
}

export interface Point {
  at: number;
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
  // After a longer pause there is no rate to show. A counter that decreased means the server was restarted.
  const rate = (name: "generated" | "prompt") =>
    last && seconds > 0 && seconds <= windowSeconds ? Math.max(0, now[name] - last[name]) / seconds : undefined;
  const old = history.find(({ at }) => now.at - at <= windowSeconds);
  const recent = between(old?.firstToken ?? [], now.firstToken);
  return {
    at: now.at,
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

const fineSeconds = 300; // of one point per second
const coarseSeconds = 4.5; // between two older points
const keptSeconds = 3600;

// The points of the last hour, of which older ones are as far apart as those of the server.
export function thinned(points: Point[], now: number): Point[] {
  const out: Point[] = [];
  for (const value of points) {
    if (now - value.at > keptSeconds) continue;
    const last = out[out.length - 1];
    if (last && now - value.at > fineSeconds && value.at - last.at < coarseSeconds) continue;
    out.push(value);
  }
  return out;
}
