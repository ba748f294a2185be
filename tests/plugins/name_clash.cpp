// A plugin whose operator has the name of a built-in one.

#include "graft/ops/plugin.h"

namespace {

void add_operators(graft::ops::Registry& registry) {
  registry.add({.name = "cpu.rms_norm",
                .role = graft::ops::Role::Norm,
                .make = registry.find("cpu.rms_norm")->make});
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
