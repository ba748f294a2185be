// What /metrics shows, as Prometheus reads it. Names and meanings are vLLM's, so that its
// dashboards work.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/engine/request.h"

namespace graft::server {

class Histogram {
 public:
  // Upper bounds, ascending; they must outlive it.
  explicit Histogram(std::span<const double> bounds);

  void observe(double value);
  // Appends the lines of one metric. `labels`: `model_name="m"`.
  void write(std::string& out, std::string_view name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // per bound, and one for what is above
  double sum_ = 0;
};

// One answer, when it has ended.
struct FinishedAnswer {
  std::string_view reason = {};  // stop, length, abort, error
  std::int64_t num_output = 0;
  double total_seconds = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

struct ModelGauges {
  std::string model = {};
  engine::EngineStats stats = {};
};

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // Seconds since the request came, and since the token before.
  void first_token(const std::string& model, double seconds);
  void next_token(const std::string& model, double seconds);
  // A prompt has been read; tokens have been added to an answer.
  void prompt(const std::string& model, std::int64_t num_tokens, std::int64_t num_cached);
  void output(const std::string& model, std::size_t num_tokens);
  void finished(const std::string& model, const FinishedAnswer& answer);

  std::string text(const std::vector<ModelGauges>& gauges) const;

 private:
  struct OfModel;
  using Models = std::map<std::string, OfModel>;

  OfModel& of(const std::string& model);

  mutable std::mutex mutex_;
  Models models_;
};

}  // namespace graft::server
