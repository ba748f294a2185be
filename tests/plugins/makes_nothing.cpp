// A plugin that registers an operator without a factory.

#include "graft/ops/plugin.h"

namespace {

void add_operators(graft::ops::Registry& registry) {
  registry.add({.name = "empty.norm", .role = graft::ops::Role::Norm});
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
