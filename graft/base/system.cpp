#include "graft/base/system.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace graft {
namespace {

std::uint64_t free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// Cached pages of files, which give way when memory is needed.
std::uint64_t file_pages(const std::string& folder) {
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  std::uint64_t bytes = 0;
  while (stat >> key >> bytes) {
    if (key == "file") return bytes;
  }
  return 0;
}

// What the tightest of this process's control groups (version 2) leaves.
std::optional<std::uint64_t> left_in_groups() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line) && !line.starts_with("0::")) {}
  if (!line.starts_with("0::")) return std::nullopt;
  std::optional<std::uint64_t> least;
  for (std::string group = line.substr(3); !group.empty();
       group.erase(std::min(group.rfind('/'), group.size()))) {
    const std::string folder = "/sys/fs/cgroup" + group;
    const auto limit = number_in(folder + "/memory.max");
    const auto used = number_in(folder + "/memory.current");
    if (!limit || !used) continue;
    const std::uint64_t taken = *used - std::min(*used, file_pages(folder));
    const std::uint64_t left = *limit - std::min(*limit, taken);
    least = std::min(least.value_or(left), left);
  }
  return least;
}

}  // namespace

std::uint64_t available_memory() {
  const std::uint64_t free = free_memory();
  const auto left = left_in_groups();
  return left && free != 0 ? std::min(free, *left) : free;
}

}  // namespace graft
