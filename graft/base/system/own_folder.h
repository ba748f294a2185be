// Where this code was installed: what comes with it (rule files, the bundled model, the CUDA
// library) is found from here, whoever runs it.

#pragma once

#include <filesystem>
#include <string>

namespace graft {

// The folder of libgraft.so, or of the program when the modules are linked into it. Empty when the
// system does not say.
std::filesystem::path own_folder();

// The folder `name` that comes with the program: what the environment variable says when it is set,
// else beside the installed program (share/graft/name), else in the source tree it was built in.
// Throws Error with the places it looked at.
std::filesystem::path resource_folder(const std::string& name, const char* variable);

}  // namespace graft
