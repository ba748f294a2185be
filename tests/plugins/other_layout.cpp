// A plugin of the right version whose types have another layout.

#include <cstdlib>

#include "graft/ops/plugin.h"

namespace {

void never(graft::ops::Registry& /*registry*/) {
  std::abort();
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.layout = 7, .add_operators = never};
