#include "graft/base/system/cgroup.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace graft {
namespace {

namespace fs = std::filesystem;

// cgroup v1 has no word for "no limit": it reports the largest multiple of the page size.
constexpr double kNoLimit = 1e18;

// nullopt when the file is missing or holds a word such as "max".
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

template <class Number>
void lower(Number& limit, Number found) {
  limit = limit == 0 ? found : std::min(limit, found);
}

struct MemoryFiles {
  const char* limit;
  const char* used;
  std::string_view cached;  // key of the page cache in memory.stat
};

constexpr std::array kMemoryFiles = {
    MemoryFiles{"memory.max", "memory.current", "file"},  // v2
    MemoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"},
};

double cached_bytes(const fs::path& folder, std::string_view wanted) {
  std::ifstream stat(folder / "memory.stat");
  std::string key;
  double bytes = 0;
  while (stat >> key >> bytes) {
    if (key == wanted) return bytes;
  }
  return 0;
}

void lower_memory(CgroupLimits& limits, const fs::path& folder) {
  for (const MemoryFiles& files : kMemoryFiles) {
    const auto limit = number_in(folder / files.limit);
    if (!limit || *limit >= kNoLimit) continue;
    lower(limits.memory_bytes, static_cast<std::uint64_t>(*limit));
    const double used = number_in(folder / files.used).value_or(0);
    const double taken = std::max(0.0, used - cached_bytes(folder, files.cached));
    const auto left = static_cast<std::uint64_t>(std::max(0.0, *limit - taken));
    limits.memory_left = std::min(limits.memory_left.value_or(left), left);
  }
}

// Quota and period are microseconds of CPU time per microseconds of wall time: in v2 one file
// ("200000 100000"), in v1 two, where a quota of -1 means no limit.
void lower_cpus(CgroupLimits& limits, const fs::path& folder) {
  double quota = number_in(folder / "cpu.cfs_quota_us").value_or(0);
  double period = number_in(folder / "cpu.cfs_period_us").value_or(0);
  std::ifstream file(folder / "cpu.max");
  double first = 0;
  double second = 0;
  if (file >> first >> second) {
    quota = first;
    period = second;
  }
  if (quota > 0 && period > 0) lower(limits.cpus, quota / period);
}

// Visits the cgroup and its ancestors up to the root. Inside a container the mounted root is the
// cgroup itself and the path, which is the host's, does not exist below it.
void lower_along(CgroupLimits& limits, const fs::path& hierarchy, fs::path group) {
  while (!group.empty() && group != "/") {
    lower_memory(limits, hierarchy / group.relative_path());
    lower_cpus(limits, hierarchy / group.relative_path());
    group = group.parent_path();
  }
  lower_memory(limits, hierarchy);
  lower_cpus(limits, hierarchy);
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& groups, const fs::path& root) {
  CgroupLimits limits;
  std::ifstream file(groups);
  std::string line;
  // v2: "0::/a/group"; v1: "4:memory:/a/group" and "1:cpu,cpuacct:/a/group".
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (kind.empty() || kind == "memory" || kind == "cpu" || kind == "cpu,cpuacct")
      lower_along(limits, root / kind, group);
  }
  return limits;
}

}  // namespace graft
