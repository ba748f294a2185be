// graft bench: the table of speeds and their percentage of the machine's limits.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/cli/bench/bench_profile.h"
#include "graft/cli/bench/bench_speed.h"
#include "graft/perf/limits.h"
#include "graft/perf/work.h"

namespace graft::cli {

// Contents of the lines above the table.
struct BenchHeader {
  std::string model = {};
  std::uint64_t bytes = 0;
  std::string type = {};  // type_text() in parts.h
  std::int64_t parameters = 0;
  std::int64_t parameters_per_token = 0;
  std::size_t threads = 0;
  std::string isa = {};
  perf::MachineLimits limits = {};
};

struct SpeedRow {
  SpeedTest test = {};
  std::vector<double> tokens_per_s = {};  // one per round
  // Work of one forward pass: all tokens of a prompt, or one token of each sequence. Set only when
  // the whole model runs on the CPU, whose limits are measured.
  std::optional<perf::Work> work = {};
  std::vector<ModuleTime> modules = {};  // with --profile
  double predicted = 0;                  // tokens/s of the plan's estimate; 0: none

  // At the mean speed. Unset for prefill, which is not limited by memory bandwidth.
  std::optional<double> bytes_per_s() const;
  std::optional<double> flops() const;
};

struct SpeedReport {
  BenchHeader header = {};
  std::vector<SpeedRow> rows = {};
  std::vector<std::string> notes = {};  // how to read the figures
};

std::string table_text(const SpeedReport& report);

// {"graft": version,
//  "model": {"name", "bytes", "type", "parameters", "parameters_per_token"},
//  "threads", "isa",
//  "limits": {"read_bytes_per_s", "float_flops", "int8_flops"},
//  "tests": [{"test": "tg128", "prompt_tokens", "generated_tokens", "sequences",
//             "tokens_per_s": {"mean", "deviation", "rounds": [...]},
//             "bytes_per_s", "share_of_read", "flops", "share_of_flops",   null: not applicable
//             "modules": [{"module", "calls", "seconds"}]}],   with --profile
//  "notes": [...]}
Json report_json(const SpeedReport& report);
Json header_json(const BenchHeader& header);
Json row_json(const SpeedRow& row, const perf::MachineLimits& limits);
std::string header_text(const BenchHeader& header);
// "85" for 85 % of the limit; empty without a value or limit.
std::string percent_text(const std::optional<double>& value, double limit);

}  // namespace graft::cli
