#include "graft/base/system/cpus.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>

#include <hwloc.h>

#include "graft/base/error.h"

namespace graft {
namespace {

// Above any real CPU id; bounds the memory a list such as "0-999999999" takes.
constexpr int kMaxCpuId = 1 << 16;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, Destroy>;

// The topology of this machine, or a synthetic one when `description` is not null.
Topology load_topology(const char* description) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("CPU topology: hwloc_topology_init failed");
  Topology topology(raw);
  if (description != nullptr && hwloc_topology_set_synthetic(raw, description) != 0)
    fail("CPU topology: hwloc rejects the synthetic topology \"", description, "\"");
  // Otherwise hwloc binds this thread to every CPU in turn to query its caches.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (hwloc_topology_load(raw) != 0) fail("CPU topology: hwloc_topology_load failed");
  return topology;
}

// Loaded once: the topology is fixed, only the affinity of a thread changes.
hwloc_topology* this_machine() {
  static const Topology topology = load_topology(nullptr);
  return topology.get();
}

int node_of(hwloc_topology* topology, unsigned cpu) {
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (hwloc_bitmap_isset(node->cpuset, cpu) != 0) return static_cast<int>(node->os_index);
  }
  return 0;
}

// The CPUs the calling thread may run on; all CPUs of a synthetic topology.
std::vector<LogicalCpu> cpus_of(hwloc_topology* topology) {
  const CpuSet allowed(hwloc_bitmap_alloc_full());
  hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_THREAD);
  std::vector<LogicalCpu> cpus;
  for (hwloc_obj_t unit = nullptr;
       (unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr;) {
    if (hwloc_bitmap_isset(allowed.get(), unit->os_index) == 0) continue;
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    // Virtual machines that hide the cores hide all of them: then count every CPU as a core.
    cpus.push_back({.number = static_cast<int>(unit->os_index),
                    .core = static_cast<int>((core == nullptr ? unit : core)->logical_index),
                    .node = node_of(topology, unit->os_index)});
  }
  std::ranges::sort(cpus, {}, &LogicalCpu::number);
  if (cpus.empty()) cpus.push_back({});
  return cpus;
}

std::optional<int> parse_id(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value < kMaxCpuId ? std::optional(value) : std::nullopt;
}

// Empty when the list is malformed.
std::vector<int> parse_list(std::string_view list) {
  std::vector<int> ids;
  while (true) {
    const std::string_view range = list.substr(0, list.find(','));
    const std::size_t dash = range.find('-');
    const auto first = parse_id(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_id(range.substr(dash + 1));
    if (!first || !last || *last < *first) return {};
    for (int i = *first; i <= *last; ++i)
      ids.push_back(i);
    if (range.size() == list.size()) return ids;
    list.remove_prefix(range.size() + 1);
  }
}

}  // namespace

std::vector<LogicalCpu> usable_cpus() {
  return cpus_of(this_machine());
}

std::vector<LogicalCpu> synthetic_cpus(const std::string& machine) {
  return cpus_of(load_topology(machine.c_str()).get());
}

std::vector<LogicalCpu> one_per_core(const std::vector<LogicalCpu>& cpus) {
  std::set<int> seen;
  std::vector<LogicalCpu> cores;
  for (const LogicalCpu& cpu : cpus) {
    if (seen.insert(cpu.core).second) cores.push_back(cpu);
  }
  return cores;
}

std::size_t num_numa_nodes(const std::vector<LogicalCpu>& cpus) {
  std::set<int> nodes;
  for (const LogicalCpu& cpu : cpus)
    nodes.insert(cpu.node);
  return nodes.size();
}

std::vector<int> parse_cpu_list(std::string_view list) {
  std::vector<int> ids = parse_list(list);
  if (ids.empty()) fail("CPU list \"", list, "\": expected a list such as 0-3,8");
  const std::vector<LogicalCpu> usable = usable_cpus();
  std::set<int> seen;
  for (const int id : ids) {
    if (!seen.insert(id).second) fail("CPU list \"", list, "\": duplicate CPU ", id);
    if (std::ranges::find(usable, id, &LogicalCpu::number) == usable.end()) {
      fail("CPU list \"", list, "\": CPU ", id,
           " does not exist or is not in the affinity mask of this process");
    }
  }
  return ids;
}

void pin_this_thread(const std::vector<int>& cpus) {
  const CpuSet set(hwloc_bitmap_alloc());
  for (const int cpu : cpus)
    hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  hwloc_set_cpubind(this_machine(), set.get(), HWLOC_CPUBIND_THREAD);
}

}  // namespace graft
