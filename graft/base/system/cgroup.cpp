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

// cgroup v1 writes "no limit" as the largest number of pages.
constexpr double kNoLimit = 1e18;

// Nothing when the file is absent or holds a word, such as "max".
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
  std::string_view cached;  // the line of memory.stat
};

constexpr std::array kMemoryFiles = {
    MemoryFiles{"memory.max", "memory.current", "file"},  // v2
    MemoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"},
};

double cached_bytes(const fs::path& folder, std::string_view line) {
  std::ifstream stat(folder / "memory.stat");
  std::string key;
  double bytes = 0;
  while (stat >> key >> bytes) {
    if (key == line) return bytes;
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

// Microseconds of processor time in so many of the clock's: one file of v2 ("200000 100000"), two
// of v1, where -1 is no limit.
void lower_processors(CgroupLimits& limits, const fs::path& folder) {
  double quota = number_in(folder / "cpu.cfs_quota_us").value_or(0);
  double period = number_in(folder / "cpu.cfs_period_us").value_or(0);
  std::ifstream file(folder / "cpu.max");
  double first = 0;
  double second = 0;
  if (file >> first >> second) {
    quota = first;
    period = second;
  }
  if (quota > 0 && period > 0) lower(limits.processors, quota / period);
}

// The group and all above it; in a container, whose root is the group, the path is that of the host
// and only the root is there.
void lower_along(CgroupLimits& limits, const fs::path& hierarchy, fs::path group) {
  while (!group.empty() && group != "/") {
    lower_memory(limits, hierarchy / group.relative_path());
    lower_processors(limits, hierarchy / group.relative_path());
    group = group.parent_path();
  }
  lower_memory(limits, hierarchy);
  lower_processors(limits, hierarchy);
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& groups, const fs::path& root) {
  CgroupLimits limits;
  std::ifstream file(groups);
  std::string line;
  // "0::/a/group" is of v2, "4:memory:/a/group" and "1:cpu,cpuacct:/a/group" are of v1.
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
