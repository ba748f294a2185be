// Facts about this machine from /proc and /sys. Unknown values are 0 or empty.

#pragma once

#include <cstdint>
#include <string>

namespace graft {

// Bytes of host memory that can be allocated without swapping, or what the cgroup limit leaves when
// that is less.
std::uint64_t available_memory();
std::uint64_t total_memory();

std::string cpu_name();  // "Intel(R) Xeon(R) LogicalCpu @ 2.80GHz"

// The transparent huge page mode: "always", "madvise" or "never".
std::string large_page_setting();

// The one-minute load average: runnable threads.
double load_average();
// Load per CPU above which benchmark results are not reliable.
inline constexpr double kBusyLoad = 0.5;

}  // namespace graft
