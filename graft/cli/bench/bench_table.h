// graft bench: a table of speeds, and how near to the machine's limits they come.

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

// What the lines above the table say.
struct BenchHeader {
  std::string model = {};
  std::uint64_t bytes = 0;
  std::string type = {};  // the mix of a GGUF file, else the type of most bytes
  std::int64_t parameters = 0;
  std::int64_t parameters_per_token = 0;
  std::size_t threads = 0;
  std::string isa = {};
  perf::Limits limits = {};
};

struct SpeedRow {
  SpeedTest test = {};
  std::vector<double> tokens_per_s = {};  // of each round
  // Of one pass: all tokens of a prompt, one token of each sequence. Nothing when it does not run
  // on the processor, whose limits these are.
  std::optional<perf::Work> work = {};
  std::vector<ModuleTime> modules = {};  // when they were timed

  // Reached with the mean speed. Prompts read weights once for many tokens: nothing to compare.
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
//             "bytes_per_s", "share_of_read", "flops", "share_of_flops",   null: nothing to say
//             "modules": [{"module", "calls", "seconds"}]}],   with --profile
//  "notes": [...]}
Json report_json(const SpeedReport& report);
Json header_json(const BenchHeader& header);
Json row_json(const SpeedRow& row, const perf::Limits& limits);
std::string header_text(const BenchHeader& header);
// "85 %", or nothing where there is nothing to compare.
std::string share_text(const std::optional<double>& value, double limit);

}  // namespace graft::cli
