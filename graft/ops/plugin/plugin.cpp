#include "graft/ops/plugin/plugin.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/ops/devices/shared_library.h"
#include "graft/ops/plugin/adapters.h"

namespace graft::ops {
namespace {

// Implements the registry of the plugin interface.
class PluginRegistry final : public plugin::Registry {
 public:
  explicit PluginRegistry(ops::Registry& registry) : registry_(registry) {}

  void add(plugin::Registration registration) override {
    if (!registration.make) fail("operator '", registration.name, "' has no make function");
    registry_.add(plugin_operator(std::move(registration), registry_));
  }

 private:
  ops::Registry& registry_;
};

}  // namespace

void load_plugin(const std::filesystem::path& path, Registry& registry) {
  SharedLibrary library(path);
  const auto* exported = static_cast<const plugin::Plugin*>(library.find("graft_plugin"));
  if (exported == nullptr || exported->version == nullptr)
    fail(path.string(), ": not a graft plugin: the symbol graft_plugin is missing");
  library.expect_build(exported->version, exported->layout, plugin::layout());
  if (exported->add_operators == nullptr)
    fail(path.string(), ": the plugin has no add_operators function");
  library.keep_open();
  library.call([&] { add_plugin(*exported, registry); });
}

void add_plugin(const plugin::Plugin& plugin, Registry& registry) {
  PluginRegistry seen_by_plugin(registry);
  plugin.add_operators(seen_by_plugin);
}

}  // namespace graft::ops
