// LoRA adapters of random values for benchmarks.

#pragma once

#include <cstdint>
#include <filesystem>

#include "graft/plan/blueprint.h"

namespace graft::cli {

// Writes the PEFT folder of an adapter in BF16 for all linear layers of attention and dense MLPs.
// The values are small: outputs of the model stay finite.
void write_random_adapter(const plan::Blueprint& blueprint,
                          std::int64_t rank,
                          std::uint64_t seed,
                          const std::filesystem::path& folder);

}  // namespace graft::cli
