// What a container or a service manager lets this process have of its machine. Linux counts in two
// ways, cgroup v1 and v2; both are read.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace graft {

// 0: no limit.
struct CgroupLimits {
  double processors = 0;  // time of so many processors
  std::uint64_t memory_bytes = 0;
  // Of the limit, what can still be taken: cached pages of files give way.
  std::optional<std::uint64_t> memory_left = {};
};

// The lowest of the process's own group and those above it. The paths are for tests.
CgroupLimits cgroup_limits(const std::filesystem::path& groups = "/proc/self/cgroup",
                           const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace graft
