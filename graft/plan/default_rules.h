// Which rule file is used when the user names none.

#pragma once

#include <filesystem>
#include <string_view>

namespace graft::plan {

// The folder of the rule files that come with the program: $GRAFT_RULES_DIR when it is set, else
// share/graft/rules of the installation, else rules/ of the source tree the program was built in.
// Throws Error that names the places looked at.
std::filesystem::path rules_folder();

// cpu.yaml without GPUs; with some, hybrid/<family>.yaml where there is one (the families whose
// experts rarely fit into GPU memory), else gpu.yaml. Throws Error when the file is missing.
std::filesystem::path default_rules(std::string_view family, int num_gpus);

}  // namespace graft::plan
