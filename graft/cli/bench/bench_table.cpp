#include "graft/cli/bench/bench_table.h"

#include <fmt/format.h>

#include "graft/base/text/units.h"
#include "graft/cli/bench/spread.h"
#include "graft/cli/counted.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

double passes_per_s(const SpeedRow& row) {
  const auto tokens_per_pass =
      static_cast<double>(row.test.num_prompt > 0 ? row.test.num_prompt : row.test.num_sequences);
  return spread_of(row.tokens_per_s).mean / tokens_per_pass;
}

// In units of 1e9.
std::string giga_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f}", *value / 1e9) : "";
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json share_or_null(const std::optional<double>& value, double limit) {
  return value && limit > 0 ? Json(*value / limit) : Json(nullptr);
}

std::string row_text(const SpeedRow& row, const perf::MachineLimits& limits) {
  const Spread speed = spread_of(row.tokens_per_s);
  const std::string tokens_per_s = fmt::format("{:.2f} ± {:.2f}", speed.mean, speed.deviation);
  const std::string predicted =
      row.predicted > 0
          ? fmt::format("{:.1f} ({:+.0f} %)", row.predicted, 100 * (row.predicted / speed.mean - 1))
          : "";
  return fmt::format("| {:<8} | {:>5} | {:>20} | {:>17} | {:>7} | {:>14} | {:>9} | {:>9} |\n",
                     row.test.name(), row.test.num_sequences, tokens_per_s, predicted,
                     giga_text(row.bytes_per_s()),
                     percent_text(row.bytes_per_s(), limits.read_bytes_per_s),
                     giga_text(row.flops()), percent_text(row.flops(), limits.flops()));
}

}  // namespace

std::string percent_text(const std::optional<double>& value, double limit) {
  return value && limit > 0 ? fmt::format("{:.0f}", 100 * *value / limit) : "";
}

Json row_json(const SpeedRow& row, const perf::MachineLimits& limits) {
  const Spread speed = spread_of(row.tokens_per_s);
  return {{"test", row.test.name()},
          {"prompt_tokens", row.test.num_prompt},
          {"generated_tokens", row.test.num_generated},
          {"sequences", row.test.num_sequences},
          {"tokens_per_s",
           {{"mean", speed.mean}, {"deviation", speed.deviation}, {"rounds", row.tokens_per_s}}},
          {"predicted_tokens_per_s", row.predicted > 0 ? Json(row.predicted) : Json(nullptr)},
          {"bytes_per_s", number_or_null(row.bytes_per_s())},
          {"share_of_read", share_or_null(row.bytes_per_s(), limits.read_bytes_per_s)},
          {"flops", number_or_null(row.flops())},
          {"share_of_flops", share_or_null(row.flops(), limits.flops())}};
}

std::optional<double> SpeedRow::bytes_per_s() const {
  if (!work || test.num_prompt > 0) return std::nullopt;
  return work->bytes() * passes_per_s(*this);
}

std::optional<double> SpeedRow::flops() const {
  if (!work) return std::nullopt;
  return work->flops() * passes_per_s(*this);
}

std::string header_text(const BenchHeader& header) {
  const std::string peak =
      header.limits.int8_ops > 0
          ? fmt::format("float32 {:.0f} GFLOP/s, int8 {:.0f} GFLOP/s (peak: {})",
                        header.limits.f32_flops / 1e9, header.limits.int8_ops / 1e9,
                        header.limits.product())
          : fmt::format("float32 {:.0f} GFLOP/s", header.limits.f32_flops / 1e9);
  return fmt::format("{}: {} {}, {} parameters, {} active per token\n", header.model,
                     bytes_text(header.bytes), header.type,
                     count_text(static_cast<double>(header.parameters)),
                     count_text(static_cast<double>(header.parameters_per_token))) +
         fmt::format("{}, {} kernels; measured limits: read {:.1f} GB/s, {}\n\n",
                     counted(static_cast<std::int64_t>(header.threads), "thread"), header.isa,
                     header.limits.read_bytes_per_s / 1e9, peak);
}

std::string table_text(const SpeedReport& report) {
  std::string text = header_text(report.header);
  text +=
      fmt::format("| {:<8} | {:>5} | {:>20} | {:>17} | {:>7} | {:>14} | {:>9} | {:>9} |\n", "test",
                  "batch", "tok/s", "predicted", "GB/s", "% of bandwidth", "GFLOP/s", "% of peak");
  text += fmt::format("|{:-<10}|{:->6}:|{:->21}:|{:->18}:|{:->8}:|{:->15}:|{:->10}:|{:->10}:|\n",
                      "", "", "", "", "", "", "", "");
  for (const SpeedRow& row : report.rows)
    text += row_text(row, report.header.limits);
  for (const SpeedRow& row : report.rows) {
    if (row.modules.empty()) continue;
    text += fmt::format("\n{}, batch {}:\n{}", row.test.name(), row.test.num_sequences,
                        module_table(row.modules));
  }
  for (const std::string& note : report.notes)
    text += (&note == &report.notes.front() ? "\n" : "") + note + '\n';
  return text;
}

Json header_json(const BenchHeader& header) {
  return {{"graft", GRAFT_VERSION},
          {"model",
           {{"name", header.model},
            {"bytes", header.bytes},
            {"type", header.type},
            {"parameters", header.parameters},
            {"parameters_per_token", header.parameters_per_token}}},
          {"threads", header.threads},
          {"isa", header.isa},
          {"limits",
           {{"read_bytes_per_s", header.limits.read_bytes_per_s},
            {"float_flops", header.limits.f32_flops},
            {"int8_flops", header.limits.int8_ops}}}};
}

Json report_json(const SpeedReport& report) {
  Json json = header_json(report.header);
  json["tests"] = Json::array();
  for (const SpeedRow& row : report.rows) {
    json["tests"].push_back(row_json(row, report.header.limits));
    if (!row.modules.empty()) json["tests"].back()["modules"] = module_json(row.modules);
  }
  json["notes"] = report.notes;
  return json;
}

}  // namespace graft::cli
