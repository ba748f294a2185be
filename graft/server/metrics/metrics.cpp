#include "graft/server/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "graft/server/metrics/prometheus.h"
#include "graft/server/metrics/speculation_metrics.h"
#include "graft/server/metrics/tier_metrics.h"
#include "graft/tensor/device.h"

namespace graft::server {
namespace {

// Bucket bounds as in vLLM: seconds, and tokens for the lengths.
constexpr std::array kFirstTokenBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06,  0.08, 0.1,
                                          0.25,  0.5,   0.75, 1.0,  2.5,  5.0,   7.5,  10.0,
                                          20.0,  40.0,  80.0, 160., 640., 2560.0};
constexpr std::array kTokenBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                     0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr std::array kRequestBounds = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,
                                       5.0,  10.0, 15.0, 20.0, 30.0,  40.0,  50.0,
                                       60.0, 120., 240., 480., 960.0, 1920., 7680.0};
constexpr std::array kLengthBounds = {1.0,   2.0,   5.0,   10.0,  20.0,   50.0,   100.0,  200.0,
                                      500.0, 1000., 2000., 5000., 10000., 20000., 50000., 100000.};

std::string model_label(const std::string& model) {
  return metric_label("model_name", model) + R"(,engine="0")";
}

std::string number_text(double value) {
  return std::trunc(value) == value && std::abs(value) < 1e15
             ? fmt::format("{}.0", static_cast<std::int64_t>(value))
             : fmt::format("{}", value);
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1, 0) {}

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, const std::string& labels) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? number_text(bounds_[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  out +=
      fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, count);
}

void Histogram::add_cumulative(std::span<std::uint64_t> counts) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    counts[i] += count;
  }
}

std::span<const double> first_token_bounds() {
  return kFirstTokenBounds;
}

struct Metrics::ModelMetrics {
  Histogram first_token{kFirstTokenBounds};
  Histogram next_token{kTokenBounds};
  Histogram total{kRequestBounds};
  Histogram queue{kRequestBounds};
  Histogram prefill{kRequestBounds};
  Histogram decode{kRequestBounds};
  Histogram prompt_length{kLengthBounds};
  Histogram output_length{kLengthBounds};
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;
  std::int64_t num_output = 0;
  std::map<std::string, std::int64_t> num_finished = {};  // by finish reason
  std::int64_t num_embeddings = 0;
  std::int64_t num_embedded_tokens = 0;
  std::int64_t num_loads = 0;
  std::int64_t num_failed_loads = 0;
  std::map<std::string, std::int64_t> num_unloads = {};  // by reason
  // Counters of the engine: those of unloaded models summed, and the last known ones of loaded
  // models by serial.
  engine::EngineStats unloaded = {};
  std::map<std::uint64_t, engine::EngineStats> live = {};
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

Metrics::ModelMetrics& Metrics::for_model(const std::string& model) {
  return models_[model];
}

void Metrics::first_token(const std::string& model, double seconds) {
  const std::lock_guard lock(mutex_);
  for_model(model).first_token.observe(seconds);
}

void Metrics::next_token(const std::string& model, double seconds) {
  const std::lock_guard lock(mutex_);
  for_model(model).next_token.observe(seconds);
}

void Metrics::prompt(const std::string& model, std::int64_t num_tokens, std::int64_t num_cached) {
  const std::lock_guard lock(mutex_);
  ModelMetrics& metrics = for_model(model);
  metrics.prompt_length.observe(static_cast<double>(num_tokens));
  metrics.num_prompt += num_tokens;
  metrics.num_cached += num_cached;
}

void Metrics::output(const std::string& model, std::size_t num_tokens) {
  const std::lock_guard lock(mutex_);
  for_model(model).num_output += static_cast<std::int64_t>(num_tokens);
}

void Metrics::finished(const std::string& model, const FinishedSequence& sequence) {
  const std::lock_guard lock(mutex_);
  ModelMetrics& metrics = for_model(model);
  metrics.total.observe(sequence.total_seconds);
  metrics.queue.observe(sequence.queue_seconds);
  metrics.prefill.observe(sequence.prefill_seconds);
  metrics.decode.observe(sequence.decode_seconds);
  metrics.output_length.observe(static_cast<double>(sequence.num_output));
  ++metrics.num_finished[std::string(sequence.reason)];
}

void Metrics::embedded(const std::string& model, std::int64_t num_texts, std::int64_t num_tokens) {
  const std::lock_guard lock(mutex_);
  for_model(model).num_embeddings += num_texts;
  for_model(model).num_embedded_tokens += num_tokens;
}

void Metrics::loaded(const std::string& model, std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  ++for_model(model).num_loads;
  for_model(model).live[serial] = {};
}

void Metrics::load_failed(const std::string& model) {
  const std::lock_guard lock(mutex_);
  ++for_model(model).num_failed_loads;
}

namespace {

// A number of the engine's statistics.
struct StatRow {
  const char* name;
  const char* help;
  std::int64_t engine::EngineStats::*value;
};

constexpr StatRow kStatGauges[] = {
    {"vllm:num_requests_running", "Number of running sequences.",
     &engine::EngineStats::num_running},
    {"graft:kv_tier_loading",
     "Number of waiting sequences whose KV cache blocks are read from disk.",
     &engine::EngineStats::num_loading},
    {"vllm:num_requests_waiting", "Number of sequences waiting for a slot or for KV-cache blocks.",
     &engine::EngineStats::num_waiting},
};

constexpr StatRow kStatCounters[] = {
    {"graft:kv_out_of_window_blocks_total",
     "KV-cache blocks that running sequences freed because they left every sliding window.",
     &engine::EngineStats::num_out_of_window_blocks},
    {"vllm:num_preemptions_total", "Number of preempted sequences.",
     &engine::EngineStats::num_preemptions},
    {"vllm:prefix_cache_queries_total", "Tokens queried in the prefix cache.",
     &engine::EngineStats::num_queried_tokens},
    {"vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.",
     &engine::EngineStats::num_hit_tokens},
    {"graft:steps_total", "Number of steps of the engine.", &engine::EngineStats::num_steps},
    {"graft:computed_tokens_total", "Tokens computed in steps, of prompts and output.",
     &engine::EngineStats::num_computed_tokens},
    {"graft:graph_replays_total", "Number of decode passes that ran as a CUDA graph.",
     &engine::EngineStats::num_graph_replays},
};

double kv_cache_usage(const engine::EngineStats& stats) {
  if (stats.blocks.num_blocks == 0) return 0;
  return static_cast<double>(stats.blocks.num_used) / static_cast<double>(stats.blocks.num_blocks);
}

}  // namespace

void Metrics::unloaded(const std::string& model,
                       std::uint64_t serial,
                       const std::string& reason,
                       const engine::EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  ModelMetrics& metrics = for_model(model);
  ++metrics.num_unloads[reason];
  if (metrics.live.erase(serial) == 0) return;
  for (const StatRow& row : kStatCounters)
    metrics.unloaded.*(row.value) += stats.*(row.value);
  add_to(metrics.unloaded.speculation, stats.speculation);
  for (const TierName& tier : kTierNames) {
    for (const TierRow& row : kTierCounters)
      metrics.unloaded.*(tier.stats).*(row.value) += stats.*(tier.stats).*(row.value);
  }
}

void Metrics::update_live(const std::vector<ModelGauges>& gauges) {
  for (const ModelGauges& model : gauges) {
    ModelMetrics& metrics = for_model(model.model);
    // A model that was unloaded meanwhile is counted already.
    const auto live = metrics.live.find(model.serial);
    if (live != metrics.live.end()) live->second = model.stats;
  }
}

std::int64_t Metrics::engine_total(const ModelMetrics& metrics,
                                   std::int64_t engine::EngineStats::*value) const {
  std::int64_t sum = metrics.unloaded.*value;
  for (const auto& [serial, stats] : metrics.live)
    sum += stats.*value;
  return sum;
}

MetricTotals Metrics::totals(const std::vector<ModelGauges>& gauges) {
  MetricTotals out;
  out.first_tokens.resize(kFirstTokenBounds.size() + 1);
  const std::lock_guard lock(mutex_);
  update_live(gauges);
  for (const ModelGauges& model : gauges) {
    out.num_running += model.stats.num_running;
    out.num_waiting += model.stats.num_waiting;
    out.kv_cache_usage = std::max(out.kv_cache_usage, kv_cache_usage(model.stats));
  }
  for (const auto& [name, metrics] : models_) {
    out.num_output += metrics.num_output;
    out.num_prompt += metrics.num_prompt;
    out.num_queried += engine_total(metrics, &engine::EngineStats::num_queried_tokens);
    out.num_hits += engine_total(metrics, &engine::EngineStats::num_hit_tokens);
    metrics.first_token.add_cumulative(out.first_tokens);
  }
  return out;
}

std::string Metrics::text(const std::vector<ModelGauges>& gauges) {
  std::string out;
  const std::lock_guard lock(mutex_);
  update_live(gauges);
  write_gauges(out, gauges);
  write_engine_counters(out);
  write_speculation(out);
  write_tiers(out, gauges);
  write_counters(out);
  write_histograms(out);
  return out;
}

void Metrics::write_gauges(std::string& out, const std::vector<ModelGauges>& gauges) const {
  MetricWriter writer(out);
  const auto add = [&](const char* name, const char* help, const auto& value) {
    writer.begin(name, "gauge", help);
    for (const ModelGauges& model : gauges)
      writer.add(model_label(model.model), static_cast<double>(value(model)));
  };
  for (const StatRow& row : kStatGauges)
    add(row.name, row.help, [&](const ModelGauges& model) { return model.stats.*(row.value); });
  add("vllm:kv_cache_usage_perc", "KV-cache usage; 1 means 100 percent.",
      [](const ModelGauges& model) { return kv_cache_usage(model.stats); });
  add("graft:kv_cache_tokens", "Tokens that the KV cache can hold.",
      [](const ModelGauges& model) { return model.stats.blocks.num_blocks * model.block_tokens; });
  writer.begin(
      "vllm:cache_config_info", "gauge",
      "The KV cache: blocks, tokens per block, data type with values per token of keys and "
      "values.");
  for (const ModelGauges& model : gauges) {
    writer.add(model_label(model.model) + "," +
                   metric_label("block_size", std::to_string(model.block_tokens)) + "," +
                   metric_label("num_blocks", std::to_string(model.stats.blocks.num_blocks)) + "," +
                   metric_label("cache_dtype", model.cache_form),
               1);
  }
  add("graft:model_load_seconds", "Seconds that loading the model took.",
      [](const ModelGauges& model) { return model.load_seconds; });
  writer.begin("graft:device_memory_bytes", "gauge",
               "Memory of a model by device and kind: weights, kv_cache and states (reserved), "
               "workspace.");
  for (const ModelGauges& model : gauges) {
    for (const auto& [device, use] : model.memory) {
      const std::string labels =
          model_label(model.model) + "," + metric_label("device", to_string(device)) + ",";
      writer.add(labels + metric_label("kind", "weights"), static_cast<double>(use.weights));
      writer.add(labels + metric_label("kind", "kv_cache"), static_cast<double>(use.kv_cache));
      if (use.states > 0)
        writer.add(labels + metric_label("kind", "states"), static_cast<double>(use.states));
      writer.add(labels + metric_label("kind", "workspace"), static_cast<double>(use.workspace));
    }
  }
}

void Metrics::write_engine_counters(std::string& out) const {
  MetricWriter writer(out);
  for (const StatRow& row : kStatCounters) {
    writer.begin(row.name, "counter", row.help);
    for (const auto& [model, metrics] : models_)
      writer.add(model_label(model), static_cast<double>(engine_total(metrics, row.value)));
  }
}

void Metrics::write_speculation(std::string& out) const {
  std::map<std::string, SpeculationStats> sums;
  for (const auto& [model, metrics] : models_) {
    SpeculationStats& sum = sums[model] = metrics.unloaded.speculation;
    for (const auto& [serial, stats] : metrics.live)
      add_to(sum, stats.speculation);
  }
  MetricWriter writer(out);
  for (const SpeculationRow& row : kSpeculationCounters) {
    writer.begin(row.name, "counter", row.help);
    for (const auto& [model, sum] : sums)
      writer.add(model_label(model), static_cast<double>(sum.*(row.value)));
  }
  writer.begin("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
               "Guessed tokens that were right, by their position in the draft.");
  for (const auto& [model, sum] : sums) {
    for (std::size_t i = 0; i < sum.accepted_by_position.size(); ++i) {
      writer.add(model_label(model) + "," + metric_label("position", std::to_string(i)),
                 static_cast<double>(sum.accepted_by_position[i]));
    }
  }
}

// Of tiers that exist.
void Metrics::write_tiers(std::string& out, const std::vector<ModelGauges>& gauges) const {
  MetricWriter writer(out);
  const auto labels = [](const std::string& model, const TierName& tier) {
    return model_label(model) + "," + metric_label("tier", tier.name);
  };
  const auto gauge = [&](const char* name, const char* help, const auto& value) {
    writer.begin(name, "gauge", help);
    for (const ModelGauges& model : gauges) {
      for (const TierName& tier : kTierNames) {
        const TierStats& stats = model.stats.*(tier.stats);
        if (stats.capacity > 0)
          writer.add(labels(model.model, tier), static_cast<double>(value(stats)));
      }
    }
  };
  gauge("graft:kv_tier_bytes",
        "Bytes of KV cache blocks in a tier: host memory of this model, or the folder on disk.",
        [](const TierStats& stats) { return stats.bytes; });
  gauge("graft:kv_tier_capacity_bytes", "Max bytes of KV cache blocks in a tier.",
        [](const TierStats& stats) { return stats.capacity; });
  gauge("graft:kv_tier_blocks", "KV cache blocks in a tier.",
        [](const TierStats& stats) { return stats.num_blocks; });
  for (const TierRow& row : kTierCounters) {
    writer.begin(row.name, "counter", row.help);
    for (const auto& [model, metrics] : models_) {
      for (const TierName& tier : kTierNames) {
        std::int64_t sum = metrics.unloaded.*(tier.stats).*(row.value);
        for (const auto& [serial, stats] : metrics.live)
          sum += stats.*(tier.stats).*(row.value);
        writer.add(labels(model, tier), static_cast<double>(sum));
      }
    }
  }
}

void Metrics::write_counters(std::string& out) const {
  MetricWriter writer(out);
  const auto counter = [&](const char* name, const char* help, auto value) {
    writer.begin(name, "counter", help);
    for (const auto& [model, metrics] : models_)
      writer.add(model_label(model), static_cast<double>(metrics.*value));
  };
  const auto labeled = [&](const char* name, const char* help, const char* label, auto value) {
    writer.begin(name, "counter", help);
    for (const auto& [model, metrics] : models_) {
      const std::string labels = model_label(model) + ",";
      for (const auto& [text, count] : metrics.*value)
        writer.add(labels + metric_label(label, text), static_cast<double>(count));
    }
  };
  counter("vllm:prompt_tokens_total", "Number of prompt tokens.", &ModelMetrics::num_prompt);
  counter("vllm:prompt_tokens_cached_total", "Number of prompt tokens found in the prefix cache.",
          &ModelMetrics::num_cached);
  counter("vllm:generation_tokens_total", "Number of generated tokens.", &ModelMetrics::num_output);
  labeled("vllm:request_success_total", "Number of finished sequences by finish reason.",
          "finished_reason", &ModelMetrics::num_finished);
  counter("graft:embeddings_total", "Number of embedded texts.", &ModelMetrics::num_embeddings);
  counter("graft:embedding_tokens_total", "Number of tokens of embedded texts.",
          &ModelMetrics::num_embedded_tokens);
  counter("graft:model_loads_total", "How often the model was loaded.", &ModelMetrics::num_loads);
  counter("graft:model_load_failures_total", "How often loading the model failed.",
          &ModelMetrics::num_failed_loads);
  labeled("graft:model_unloads_total",
          "How often the model was unloaded: idle, requested, evicted for another one, failed.",
          "reason", &ModelMetrics::num_unloads);
}

void Metrics::write_histograms(std::string& out) const {
  MetricWriter writer(out);
  const auto histogram = [&](const char* name, const char* help, auto value) {
    writer.begin(name, "histogram", help);
    for (const auto& [model, metrics] : models_)
      (metrics.*value).write(out, name, model_label(model));
  };
  histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.",
            &ModelMetrics::first_token);
  histogram("vllm:inter_token_latency_seconds", "Time between tokens in seconds.",
            &ModelMetrics::next_token);
  histogram("vllm:e2e_request_latency_seconds", "End-to-end request latency in seconds.",
            &ModelMetrics::total);
  histogram("vllm:request_queue_time_seconds", "Time spent waiting for a slot, in seconds.",
            &ModelMetrics::queue);
  histogram("vllm:request_prefill_time_seconds", "Time spent in prefill, in seconds.",
            &ModelMetrics::prefill);
  histogram("vllm:request_decode_time_seconds", "Time spent in decode, in seconds.",
            &ModelMetrics::decode);
  histogram("vllm:request_prompt_tokens", "Prompt tokens per request.",
            &ModelMetrics::prompt_length);
  histogram("vllm:request_generation_tokens", "Generated tokens per sequence.",
            &ModelMetrics::output_length);
}

}  // namespace graft::server
