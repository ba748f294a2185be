// A plugin that registers an operator without a factory.

#include "graft/plugin.h"

namespace {

void add_operators(graft::plugin::Registry& registry) {
  registry.add({.name = "empty.norm", .role = graft::plugin::Role::Norm});
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
