#include "graft/server/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

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

// Escapes backslashes, quotes and newlines in a label value.
std::string label_text(const std::string& model) {
  std::string text;
  for (const char c : model) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += R"(\n)";
    } else {
      text += c;
    }
  }
  return fmt::format(R"(model_name="{}",engine="0")", text);
}

std::string number_text(double value) {
  return std::trunc(value) == value && std::abs(value) < 1e15
             ? fmt::format("{}.0", static_cast<std::int64_t>(value))
             : fmt::format("{}", value);
}

void write_head(std::string& out, std::string_view name, const char* type, const char* help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
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

namespace {

// One metric that is read from the engine's statistics.
struct GaugeRow {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const engine::EngineStats& stats);
};

double kv_cache_usage(const engine::EngineStats& stats) {
  if (stats.blocks.num_blocks == 0) return 0;
  return static_cast<double>(stats.blocks.num_used) / static_cast<double>(stats.blocks.num_blocks);
}

constexpr GaugeRow kGauges[] = {
    {"vllm:num_requests_running", "gauge", "Number of running sequences.",
     [](const engine::EngineStats& s) { return static_cast<double>(s.num_running); }},
    {"vllm:num_requests_waiting", "gauge",
     "Number of sequences waiting for a slot or for KV-cache blocks.",
     [](const engine::EngineStats& s) { return static_cast<double>(s.num_waiting); }},
    {"vllm:kv_cache_usage_perc", "gauge", "KV-cache usage; 1 means 100 percent.", kv_cache_usage},
    {"vllm:num_preemptions_total", "counter", "Number of preempted sequences.",
     [](const engine::EngineStats& s) { return static_cast<double>(s.num_preemptions); }},
    {"vllm:prefix_cache_queries_total", "counter", "Tokens queried in the prefix cache.",
     [](const engine::EngineStats& s) { return static_cast<double>(s.num_queried_tokens); }},
    {"vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.",
     [](const engine::EngineStats& s) { return static_cast<double>(s.num_hit_tokens); }},
};

}  // namespace

std::string Metrics::text(const std::vector<ModelGauges>& gauges) const {
  std::string out;
  for (const GaugeRow& row : kGauges) {
    write_head(out, row.name, row.type, row.help);
    for (const ModelGauges& model : gauges) {
      out +=
          fmt::format("{}{{{}}} {}\n", row.name, label_text(model.model), row.value(model.stats));
    }
  }

  const std::lock_guard lock(mutex_);
  const auto counter = [&](const char* name, const char* help, auto value) {
    write_head(out, name, "counter", help);
    for (const auto& [model, metrics] : models_)
      out += fmt::format("{}{{{}}} {}\n", name, label_text(model), metrics.*value);
  };
  counter("vllm:prompt_tokens_total", "Number of prompt tokens.", &ModelMetrics::num_prompt);
  counter("vllm:prompt_tokens_cached_total", "Number of prompt tokens found in the prefix cache.",
          &ModelMetrics::num_cached);
  counter("vllm:generation_tokens_total", "Number of generated tokens.", &ModelMetrics::num_output);
  write_head(out, "vllm:request_success_total", "counter",
             "Number of finished sequences by finish reason.");
  for (const auto& [model, metrics] : models_) {
    for (const auto& [reason, count] : metrics.num_finished) {
      out += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n",
                         label_text(model), reason, count);
    }
  }

  const auto histogram = [&](const char* name, const char* help, auto value) {
    write_head(out, name, "histogram", help);
    for (const auto& [model, metrics] : models_)
      (metrics.*value).write(out, name, label_text(model));
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
  return out;
}

}  // namespace graft::server
