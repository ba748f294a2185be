// Which rule file is used when the user names none.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace graft::plan {

// The folder of the rule files that come with the program: $GRAFT_RULES_DIR when it is set, else
// share/graft/rules of the installation, else rules/ of the source tree the program was built in.
// Throws Error that names the places looked at.
std::filesystem::path rules_folder();

// cpu.yaml without GPUs. With some, gpu.yaml for a model that fits into the memory of one;
// otherwise hybrid/<family>.yaml where there is one (the families whose experts rarely fit), else
// gpu.yaml. Throws Error when the file is missing.
std::filesystem::path default_rules(std::string_view family, int num_gpus, bool fits_gpu = false);

// Whether weights of so many bytes (0: unknown) leave room for a cache and for work in the memory
// of a GPU.
bool fits_gpu(std::uint64_t weight_bytes, std::uint64_t gpu_bytes);

}  // namespace graft::plan
