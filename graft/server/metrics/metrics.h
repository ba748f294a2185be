// The metrics of models in Prometheus's text format. Names and meanings are vLLM's where it has the
// metric, so that dashboards made for vLLM work. Counters are of a model's name and never go
// backwards when it is unloaded and loaded again.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/api/llm.h"
#include "graft/engine/request.h"
#include "graft/server/metrics/history.h"

namespace graft::server {

class Histogram {
 public:
  // `bounds`: upper bounds of the buckets, ascending; they must outlive the histogram.
  explicit Histogram(std::span<const double> bounds);

  void observe(double value);
  // Appends the samples of one metric. `labels`: `model_name="m"`.
  void write(std::string& out, std::string_view name, const std::string& labels) const;
  // Adds the number of values up to each bound, then of all, to `counts`.
  void add_cumulative(std::span<std::uint64_t> counts) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // [bounds + 1], the last for values above all bounds
  double sum_ = 0;
};

// Measurements of one finished sequence (one sample of a request).
struct FinishedSequence {
  std::string_view reason = {};  // stop, length, abort, error
  std::int64_t num_output = 0;
  double total_seconds = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

// A loaded model.
struct ModelGauges {
  std::string model = {};
  std::uint64_t serial = 0;  // LoadedModel::serial()
  engine::EngineStats stats = {};
  api::DeviceMemory memory = {};
  std::int64_t block_tokens = 0;  // of the KV cache
  std::string cache_form = {};
  double load_seconds = 0;
};

// Upper bounds of the times to the first token, seconds.
std::span<const double> first_token_bounds();

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // Seconds since the request arrived, and since the previous token.
  void first_token(const std::string& model, double seconds);
  void next_token(const std::string& model, double seconds);
  // Counts the tokens of a processed prompt, and generated tokens.
  void prompt(const std::string& model, std::int64_t num_tokens, std::int64_t num_cached);
  void output(const std::string& model, std::size_t num_tokens);
  void finished(const std::string& model, const FinishedSequence& sequence);
  void embedded(const std::string& model, std::int64_t num_texts, std::int64_t num_tokens);

  void loaded(const std::string& model, std::uint64_t serial);
  void load_failed(const std::string& model);
  // `stats`: the last ones.
  void unloaded(const std::string& model,
                std::uint64_t serial,
                const std::string& reason,
                const engine::EngineStats& stats);

  std::string text(const std::vector<ModelGauges>& gauges);
  MetricTotals totals(const std::vector<ModelGauges>& gauges);

 private:
  struct ModelMetrics;
  using Models = std::map<std::string, ModelMetrics>;

  ModelMetrics& for_model(const std::string& model);
  void update_live(const std::vector<ModelGauges>& gauges);
  std::int64_t engine_total(const ModelMetrics& metrics,
                            std::int64_t engine::EngineStats::*value) const;
  void write_gauges(std::string& out, const std::vector<ModelGauges>& gauges) const;
  void write_engine_counters(std::string& out) const;
  void write_speculation(std::string& out) const;
  void write_tiers(std::string& out, const std::vector<ModelGauges>& gauges) const;
  void write_counters(std::string& out) const;
  void write_histograms(std::string& out) const;

  mutable std::mutex mutex_;
  Models models_;
};

}  // namespace graft::server
