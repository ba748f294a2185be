#include "graft/base/system/own_folder.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <link.h>

#include "graft/base/error.h"

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

std::filesystem::path resource_folder(const std::string& name, const char* variable) {
  std::vector<std::filesystem::path> places;
  std::error_code error;
  const char* from_user = std::getenv(variable);
  if (from_user != nullptr && *from_user != '\0') {
    places.emplace_back(from_user);
  } else if (const std::filesystem::path own = own_folder(); !own.empty()) {  // bin or lib
    places.push_back((own / "../share/graft" / name).lexically_normal());
    places.push_back((own / "../../.." / name).lexically_normal());  // of build/<preset>/bin
  }
  std::string looked_at;
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::is_directory(place, error)) return place;
    looked_at += (looked_at.empty() ? "" : ", ") + place.string();
  }
  fail("the folder \"", name, "\" that comes with the program is not there; looked at ", looked_at,
       " (", variable, " names another)");
}

}  // namespace graft
