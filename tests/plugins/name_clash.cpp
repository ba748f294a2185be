// A plugin whose operator has the name of a built-in one.

#include "graft/plugin.h"

namespace {

void add_operators(graft::plugin::Registry& registry) {
  registry.add({.name = "cpu.rms_norm",
                .role = graft::plugin::Role::Norm,
                .make = [](const graft::plugin::BuildContext& /*context*/) { return nullptr; }});
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
