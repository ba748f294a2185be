// Installation paths: rule files, the bundled model and the CUDA library are found relative to the
// running binary, independent of the current directory.

#pragma once

#include <filesystem>
#include <string>

namespace graft {

// The directory of libgraft.so, or of the executable when graft is linked statically. Empty when it
// cannot be determined.
std::filesystem::path executable_dir();

// The directory of the installed resource `name` ("rules", "models"): the value of the environment
// variable when it is set, else share/graft/name of the installation, else `name` in the source
// tree. Throws Error that lists the paths tried.
std::filesystem::path resource_dir(const std::string& name, const char* variable);

}  // namespace graft
