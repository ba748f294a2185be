// Logical CPUs of this machine by operating-system id, with the core and the NUMA node of each, as
// hwloc reports them.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

struct LogicalCpu {
  int number = 0;  // CPU id of the operating system
  int core = 0;    // hyperthreads of one core share this index
  int node = 0;    // NUMA node whose memory is local

  bool operator==(const LogicalCpu&) const = default;
};

// The CPUs in the affinity mask of the calling thread, ascending by id; never empty.
std::vector<LogicalCpu> usable_cpus();
// The CPUs of an hwloc synthetic topology such as "numa:2 core:4 pu:2"; for tests.
std::vector<LogicalCpu> synthetic_cpus(const std::string& machine);

// The first CPU of each core: hyperthreads share its execution units and caches.
std::vector<LogicalCpu> one_per_core(const std::vector<LogicalCpu>& cpus);
std::size_t num_numa_nodes(const std::vector<LogicalCpu>& cpus);

// Parses a Linux CPU list such as "0-3,8,10-11". Throws Error for malformed lists, duplicate ids
// and CPUs outside the affinity mask of this process.
std::vector<int> parse_cpu_list(std::string_view list);

// Sets the CPU affinity of the calling thread. Failure is ignored: it can only cost speed.
void pin_this_thread(const std::vector<int>& cpus);

}  // namespace graft
