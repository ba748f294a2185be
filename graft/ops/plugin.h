// Operators from a shared library that was built apart from graft. The library exports one
// variable, graft_plugin; its version is compared before any of its functions is called.
// examples/custom_operator shows a whole one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "graft/version.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// A number that differs when the types a plugin shares with the program were compiled otherwise:
// from other headers of the same version, or for another standard library.
constexpr std::uint32_t plugin_layout() {
  std::size_t layout = 0;
  for (const std::size_t bytes :
       {sizeof(OperatorInfo), sizeof(BuildContext), sizeof(Params), sizeof(Weight), sizeof(Pass),
        sizeof(Batch), sizeof(TensorView), sizeof(Registry)})
    layout = layout * 31 + bytes;
  return static_cast<std::uint32_t>(layout);
}

struct Plugin {
  // Of the headers the plugin was compiled with. Stays the first member in every version.
  const char* version = GRAFT_VERSION;
  std::uint32_t layout = plugin_layout();
  // Called once for every registry the plugin is loaded into. May throw; may look up operators that
  // are already there.
  void (*add_operators)(Registry& registry) = nullptr;
};

// Adds a library's operators to the registry. Throws Error that names the file: missing, no
// library, no plugin, of another version of graft, or what add_operators threw (a name that is
// taken). After an Error some of its operators may have been added.
//
// From add_operators on the library is never closed: operators, their types and even the texts in
// them are code and data of the library, and nothing here knows when the last of them is gone.
void load_plugin(const std::filesystem::path& path, Registry& registry);

}  // namespace graft::ops

// What a plugin defines: const graft::ops::Plugin graft_plugin = {.add_operators = ...};
extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): a name of C, like those of cuda_abi.h
[[gnu::visibility("default")]] extern const graft::ops::Plugin graft_plugin;
}
