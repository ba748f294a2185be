// How often the routers of a model chose each expert, kept in a file between runs: the experts that
// were used most start in GPU memory.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graft/ops/operator.h"

namespace graft::models {

// By module ("model.layers.3.mlp.experts"): the pairs of each expert.
using ExpertPairs = std::map<std::string, std::vector<std::uint64_t>>;

// The pairs of this run, and half of those of the runs before.
ExpertPairs merge_pairs(const ExpertPairs& before,
                        const std::map<std::string, ops::ExpertUsage>& usage);

using ExpertStats = std::map<std::string, ExpertPairs>;  // by the name of the model

// JSON: {"version": 1, "models": {"Qwen3-30B-A3B": {"model.layers.3.mlp.experts": [12, 0, …], …}}}.
// Throws Error; a file that does not exist has no models.
ExpertStats read_expert_stats(const std::filesystem::path& path);
// Adds or replaces one model, and creates the file. Throws Error. Thread-safe.
void write_expert_stats(const std::string& model,
                        const ExpertPairs& pairs,
                        const std::filesystem::path& path);

}  // namespace graft::models
