#include "graft/cli/doctor/host_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>

#include "graft/base/system/install_paths.h"
#include "graft/hub/environment.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

std::string word_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string container_name() {
  std::error_code error;
  if (const char* name = std::getenv("container"); name != nullptr && *name != '\0') return name;
  if (fs::exists("/.dockerenv", error)) return "docker";
  if (fs::exists("/run/.containerenv", error)) return "podman";
  return std::getenv("KUBERNETES_SERVICE_HOST") != nullptr ? "kubernetes" : "";
}

// The folder that exists, or the first ancestor that does.
fs::path existing(fs::path folder) {
  std::error_code error;
  while (!folder.empty() && !fs::exists(folder, error) && folder != folder.parent_path())
    folder = folder.parent_path();
  return folder;
}

std::optional<std::uint64_t> locked_memory_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

}  // namespace

HostFacts gather_host_facts() {
  std::error_code error;
  HostFacts facts = {.libc = ::gnu_get_libc_version(),
                     .built_libc = fmt::format("{}.{}", __GLIBC__, __GLIBC_MINOR__),
                     .is_bundled = fs::exists(executable_dir() / "libc.so.6", error),
                     .locked_bytes = locked_memory_limit(),
                     .numa_balancing = word_in("/proc/sys/kernel/numa_balancing") == "1",
                     .container = container_name()};
  const fs::path folder = hub::base_folder("XDG_DATA_HOME", ".local/share");
  if (folder.empty()) return facts;
  facts.download_folder = (folder / "graft/models").string();
  const fs::space_info space = fs::space(existing(facts.download_folder), error);
  if (!error) facts.free_bytes = space.available;
  return facts;
}

Json to_json(const HostFacts& facts) {
  return {{"libc", facts.libc},
          {"libc_built", facts.built_libc},
          {"libc_bundled", facts.is_bundled},
          {"locked_memory_bytes", facts.locked_bytes ? Json(*facts.locked_bytes) : Json()},
          {"numa_balancing", facts.numa_balancing},
          {"download_folder", facts.download_folder},
          {"free_bytes", facts.free_bytes ? Json(*facts.free_bytes) : Json()},
          {"container", facts.container}};
}

int driver_cuda_version() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 0;
  using VersionFn = int(int*);
  auto* get_version = reinterpret_cast<VersionFn*>(::dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) version = 0;
  ::dlclose(library);
  return version;
}

}  // namespace graft::cli
