// Loads plugins: operators from shared libraries, written against graft/plugin.h.

#pragma once

#include <filesystem>

#include "graft/ops/registry.h"
#include "graft/plugin.h"

namespace graft::ops {

// Adds a library's operators to the registry; the library stays loaded until the process ends.
// Throws Error with the path when the file is missing, not a library, not a plugin or built for
// another version of graft, or when add_operators throws (for example a duplicate name). After an
// Error some of its operators may have been added.
void load_plugin(const std::filesystem::path& path, Registry& registry);

// Adds the operators of a plugin that is linked into this program.
void add_plugin(const plugin::Plugin& plugin, Registry& registry);

}  // namespace graft::ops
