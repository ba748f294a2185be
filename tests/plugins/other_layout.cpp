// A plugin of the right version whose types have another layout.

#include <cstdlib>

#include "graft/plugin.h"

namespace {

void never(graft::plugin::Registry& /*registry*/) {
  std::abort();
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.layout = 7, .add_operators = never};
