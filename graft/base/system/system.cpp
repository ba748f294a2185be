#include "graft/base/system/system.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/sysinfo.h>

#include "graft/base/system/cgroup.h"

namespace graft {
namespace {

std::uint64_t meminfo_bytes(std::string_view wanted) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib >> unit) {
    if (key == wanted) return kib * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t free = meminfo_bytes("MemAvailable:");
  struct sysinfo info = {};
  // Fallback without /proc; unlike MemAvailable it does not count reclaimable page cache.
  if (free == 0 && ::sysinfo(&info) == 0) free = info.freeram * info.mem_unit;
  const auto left = cgroup_limits().memory_left;
  return left && free != 0 ? std::min(free, *left) : free;
}

std::uint64_t total_memory() {
  const std::uint64_t total = meminfo_bytes("MemTotal:");
  struct sysinfo info = {};
  return total == 0 && ::sysinfo(&info) == 0 ? info.totalram * info.mem_unit : total;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

std::string large_page_setting() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);  // "always [madvise] never"
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace graft
