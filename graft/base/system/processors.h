// The processors of this machine, by the numbers the operating system gives them, and which of
// them share a core or a memory node. What hwloc knows, as far as threads need it.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

struct Processor {
  int number = 0;
  int core = 0;
  int node = 0;  // NUMA: whose memory is nearest

  bool operator==(const Processor&) const = default;
};

// Those the calling thread may run on, ascending; never empty.
std::vector<Processor> usable_processors();
// Those of a machine in hwloc's words, such as "numa:2 core:4 pu:2".
std::vector<Processor> described_processors(const std::string& machine);

// Of each core one: two threads of a core share its arithmetic and its caches.
std::vector<Processor> one_per_core(const std::vector<Processor>& processors);
std::size_t num_nodes(const std::vector<Processor>& processors);

// "0-3,8,10-11" as the operating system writes lists. Throws Error for anything else, for a number
// that comes twice, and for processors this process may not run on.
std::vector<int> parse_processors(std::string_view list);

// The calling thread runs on these alone from now on. What the system refuses is ignored: it costs
// speed at most.
void pin_this_thread(const std::vector<int>& processors);

}  // namespace graft
