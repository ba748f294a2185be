// CPU and memory limits that a container or service manager sets on this process: Linux cgroup v1
// and v2.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace graft {

// 0: no limit.
struct CgroupLimits {
  double cpus = 0;  // CPU quota / period, in CPUs
  std::uint64_t memory_bytes = 0;
  // Bytes left below the limit; page cache counts as free because the kernel can reclaim it.
  std::optional<std::uint64_t> memory_left = {};
};

// The lowest limits of the process's cgroup and its ancestors. Tests pass other paths.
CgroupLimits cgroup_limits(const std::filesystem::path& groups = "/proc/self/cgroup",
                           const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace graft
