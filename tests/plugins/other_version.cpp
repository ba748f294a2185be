// A plugin compiled for another version of graft. None of its functions may be called.

#include <cstdlib>

#include "graft/plugin.h"

namespace {

void never(graft::plugin::Registry& /*registry*/) {
  std::abort();
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.version = "0.0.9", .add_operators = never};
