// A plugin that forgot the function that makes its operator.

#include "graft/plugin.h"

namespace {

void add_operators(graft::plugin::Registry& registry) {
  registry.add({.name = "empty.norm", .role = graft::plugin::Role::Norm});
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
