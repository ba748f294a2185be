#include "graft/plan/plugins.h"

#include <set>
#include <system_error>

#include "graft/base/error.h"
#include "graft/ops/plugin/plugin.h"

namespace graft::plan {

namespace fs = std::filesystem;

void load_plugins(const std::vector<fs::path>& libraries,
                  const RuleFile& rules,
                  ops::Registry& registry,
                  std::vector<Finding>& findings) {
  std::set<fs::path> loaded;
  const auto load = [&](const fs::path& path) {
    std::error_code error;
    const fs::path canonical = fs::weakly_canonical(path, error);
    if (loaded.insert(error ? path : canonical).second) ops::load_plugin(path, registry);
  };
  for (const fs::path& library : libraries)
    load(library);
  for (const PluginPath& plugin : rules.plugins) {
    try {
      load(rules.path.parent_path() / plugin.path);
    } catch (const Error& error) {
      findings.push_back({.where = str(rules.path.string(), ":", plugin.line),
                          .line = plugin.line,
                          .text = error.what()});
    }
  }
}

}  // namespace graft::plan
