#include "graft/base/system/install_paths.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <link.h>

#include "graft/base/error.h"

namespace graft {

std::filesystem::path executable_dir() {
  static const char here = 0;  // any address inside this library or executable
  std::error_code error;
  Dl_info info = {};
  void* extra = nullptr;
  const int found = ::dladdr1(&here, &info, &extra, RTLD_DL_LINKMAP);
  const auto* map = static_cast<const link_map*>(extra);
  // The dynamic loader reports an empty name for the executable itself.
  if (found != 0 && map != nullptr && map->l_name[0] != '\0')
    return std::filesystem::canonical(map->l_name, error).parent_path();
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::filesystem::path resource_dir(const std::string& name, const char* variable) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  const char* from_user = std::getenv(variable);
  if (from_user != nullptr && *from_user != '\0') {
    paths.emplace_back(from_user);
  } else if (const std::filesystem::path own = executable_dir(); !own.empty()) {  // bin or lib
    paths.push_back((own / "../share/graft" / name).lexically_normal());
    paths.push_back((own / "../../.." / name).lexically_normal());  // from build/<preset>/bin
  }
  std::string tried;
  for (const std::filesystem::path& path : paths) {
    if (std::filesystem::is_directory(path, error)) return path;
    tried += (tried.empty() ? "" : ", ") + path.string();
  }
  fail("resource directory \"", name, "\" not found; tried ", tried, "; set ", variable,
       " to its path");
}

}  // namespace graft
