// Selects the rule file when the user gives none.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace graft::plan {

// The folder of the bundled rule files: $GRAFT_RULES_DIR if set, else share/graft/rules of the
// installation, else rules/ of the source tree the program was built in. Throws Error that lists
// the folders searched.
std::filesystem::path rules_folder();

// cpu.yaml without GPUs. With GPUs: gpu.yaml for a model that fits into one GPU, otherwise
// hybrid/<family>.yaml if it exists (families whose experts rarely fit), else gpu.yaml. Throws
// Error when the file is missing.
std::filesystem::path default_rules(std::string_view family, int num_gpus, bool fits_gpu = false);

// Whether weights of `weight_bytes` (0: unknown, does not fit) leave 1/8 of their size plus 1 GiB
// of a GPU's memory for KV cache and workspace.
bool fits_gpu(std::uint64_t weight_bytes, std::uint64_t gpu_bytes);

}  // namespace graft::plan
