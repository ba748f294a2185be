#include "graft/base/own_folder.h"

#include <system_error>

#include <dlfcn.h>
#include <link.h>

namespace graft {

std::filesystem::path own_folder() {
  static const char here = 0;  // any address in this file will do
  std::error_code error;
  Dl_info info = {};
  void* extra = nullptr;
  const int found = ::dladdr1(&here, &info, &extra, RTLD_DL_LINKMAP);
  const auto* map = static_cast<const link_map*>(extra);
  // The loader has no name for the program itself.
  if (found != 0 && map != nullptr && map->l_name[0] != '\0')
    return std::filesystem::canonical(map->l_name, error).parent_path();
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace graft
