// graft bench --speculate: decode speed with and without speculation, and the acceptance.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/cli/options/model_options.h"
#include "graft/cli/options/speculate_option.h"

namespace graft::cli {

struct BenchSpeculateOptions {
  SpeculateOption speculate;
  std::string prompt_file;  // empty: a text to repeat
  std::vector<std::int64_t> generated;
  std::vector<std::int64_t> batch_sizes;
  std::int64_t rounds = 3;
  bool json = false;
};

void bench_speculate(const ModelOptions& model, const BenchSpeculateOptions& options);

}  // namespace graft::cli
