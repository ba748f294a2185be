// A plugin that was compiled for another version of graft. Calling anything in it would be wrong.

#include <cstdlib>

#include "graft/plugin.h"

namespace {

void never(graft::plugin::Registry& /*registry*/) {
  std::abort();
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.version = "0.0.9", .add_operators = never};
