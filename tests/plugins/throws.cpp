// A plugin whose registration throws an exception of a type defined in the plugin.

#include <exception>

#include "graft/plugin.h"

namespace {

class NoLicence : public std::exception {
 public:
  const char* what() const noexcept override { return "no licence found"; }
};

void add_operators(graft::plugin::Registry& registry) {
  registry.add({.name = "throws.norm",
                .role = graft::plugin::Role::Norm,
                .make = [](const graft::plugin::BuildContext& /*context*/) { return nullptr; }});
  throw NoLicence();
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
