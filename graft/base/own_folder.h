// Where this code was installed: what comes with it (rule files, the CUDA library) is found from
// here, whoever runs it.

#pragma once

#include <filesystem>

namespace graft {

// The folder of libgraft.so, or of the program when the modules are linked into it. Empty when the
// system does not say.
std::filesystem::path own_folder();

}  // namespace graft
