// A plugin whose registration throws an exception of a type defined in the plugin.

#include <exception>

#include "graft/ops/plugin.h"

namespace {

class NoLicence : public std::exception {
 public:
  const char* what() const noexcept override { return "no licence found"; }
};

void add_operators(graft::ops::Registry& registry) {
  registry.add({.name = "throws.norm",
                .role = graft::ops::Role::Norm,
                .make = registry.find("cpu.rms_norm")->make});
  throw NoLicence();
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
