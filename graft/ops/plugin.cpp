#include "graft/ops/plugin.h"

#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <dlfcn.h>

#include "graft/base/error.h"

namespace graft::ops {
namespace {

namespace fs = std::filesystem;

// An open library. Closes it unless it is to stay.
class Library {
 public:
  // Lazily: functions that this version of graft does not have must not keep us from reading the
  // version that the plugin was built for.
  explicit Library(fs::path path) : path_(std::move(path)), handle_(open(RTLD_LAZY)) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (!stays_) ::dlclose(handle_);
  }

  // Null when there is no plugin in it.
  const Plugin* plugin() const {
    return static_cast<const Plugin*>(::dlsym(handle_, "graft_plugin"));
  }

  // Looks up every function now, so that none is found missing in the middle of a pass.
  void stay() {
    open(RTLD_NOW);
    stays_ = true;
  }

 private:
  // With the whole path, because dlopen takes a bare name for a library of the system.
  void* open(int when) const {
    const fs::path whole = fs::absolute(path_);
    void* handle = ::dlopen(whole.c_str(), when | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    const char* error = ::dlerror();
    std::string_view cause = error == nullptr ? "unknown cause" : error;
    const std::string subject = whole.string() + ": ";
    if (cause.starts_with(subject)) cause.remove_prefix(subject.size());
    fail(path_.string(), ": cannot be loaded: ", cause);
  }

  fs::path path_;
  void* handle_;
  bool stays_ = false;
};

void check(const fs::path& path, const Plugin* plugin) {
  if (plugin == nullptr || plugin->version == nullptr)
    fail(path.string(), ": is no plugin of graft, it exports no graft_plugin");
  if (std::string_view(plugin->version) != GRAFT_VERSION)
    fail(path.string(), ": is for graft ", plugin->version, ", this is graft " GRAFT_VERSION);
  if (plugin->layout != plugin_layout()) {
    fail(path.string(), ": is for another build of graft " GRAFT_VERSION ", its types have layout ",
         plugin->layout, ", here ", plugin_layout());
  }
  if (plugin->add_operators == nullptr) fail(path.string(), ": has no function add_operators");
}

void add_operators(const fs::path& path, const Plugin& plugin, Registry& registry) {
  const std::size_t num_known = registry.all().size();
  try {
    plugin.add_operators(registry);
  } catch (const std::exception& error) {
    fail(path.string(), ": ", error.what());
  } catch (...) {
    fail(path.string(), ": add_operators threw something that is no std::exception");
  }
  const auto operators = registry.all();
  for (std::size_t i = num_known; i < operators.size(); ++i) {
    if (!operators[i]->make) fail(path.string(), ": ", operators[i]->name, " has no make");
  }
}

}  // namespace

void load_plugin(const fs::path& path, Registry& registry) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) fail(path.string(), ": no such file");
  Library library(path);
  const Plugin* plugin = library.plugin();
  check(path, plugin);
  library.stay();
  add_operators(path, *plugin, registry);
}

}  // namespace graft::ops
