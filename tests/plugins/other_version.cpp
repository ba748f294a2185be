// A plugin compiled for another version of graft. None of its functions may be called.

#include <cstdlib>

#include "graft/ops/plugin.h"

namespace {

void never(graft::ops::Registry& /*registry*/) {
  std::abort();
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.version = "0.0.9", .add_operators = never};
