#include "graft/base/system/processors.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>

#include <hwloc.h>

#include "graft/base/error.h"

namespace graft {
namespace {

// Above what systems count to; bounds what "0-999999999" makes.
constexpr int kMaxProcessors = 1 << 16;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
using Set = std::unique_ptr<hwloc_bitmap_s, Destroy>;

// Of this machine when no other is described.
Topology load_topology(const char* description) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) fail("processors: hwloc does not start");
  Topology topology(made);
  if (description != nullptr && hwloc_topology_set_synthetic(made, description) != 0)
    fail("processors: hwloc does not know a machine \"", description, "\"");
  // Otherwise this thread would go from processor to processor and ask each for its caches.
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (hwloc_topology_load(made) != 0) fail("processors: hwloc cannot read this machine");
  return topology;
}

// Read once: cores do not change, only where a thread may run does.
hwloc_topology* this_machine() {
  static const Topology topology = load_topology(nullptr);
  return topology.get();
}

int node_of(hwloc_topology* topology, unsigned processor) {
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (hwloc_bitmap_isset(node->cpuset, processor) != 0) return static_cast<int>(node->os_index);
  }
  return 0;
}

// Those the calling thread may run on; of a described machine all.
std::vector<Processor> processors_of(hwloc_topology* topology) {
  const Set allowed(hwloc_bitmap_alloc_full());
  hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_THREAD);
  std::vector<Processor> processors;
  for (hwloc_obj_t unit = nullptr;
       (unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr;) {
    if (hwloc_bitmap_isset(allowed.get(), unit->os_index) == 0) continue;
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    // Systems that hide their cores hide all of them: then every processor is one.
    processors.push_back({.number = static_cast<int>(unit->os_index),
                          .core = static_cast<int>((core == nullptr ? unit : core)->logical_index),
                          .node = node_of(topology, unit->os_index)});
  }
  std::ranges::sort(processors, {}, &Processor::number);
  if (processors.empty()) processors.push_back({});
  return processors;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value < kMaxProcessors ? std::optional(value) : std::nullopt;
}

// Empty when it is no list.
std::vector<int> parse_list(std::string_view list) {
  std::vector<int> numbers;
  while (true) {
    const std::string_view part = list.substr(0, list.find(','));
    const std::size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return {};
    for (int i = *first; i <= *last; ++i)
      numbers.push_back(i);
    if (part.size() == list.size()) return numbers;
    list.remove_prefix(part.size() + 1);
  }
}

}  // namespace

std::vector<Processor> usable_processors() {
  return processors_of(this_machine());
}

std::vector<Processor> described_processors(const std::string& machine) {
  return processors_of(load_topology(machine.c_str()).get());
}

std::vector<Processor> one_per_core(const std::vector<Processor>& processors) {
  std::set<int> seen;
  std::vector<Processor> cores;
  for (const Processor& processor : processors) {
    if (seen.insert(processor.core).second) cores.push_back(processor);
  }
  return cores;
}

std::size_t num_nodes(const std::vector<Processor>& processors) {
  std::set<int> nodes;
  for (const Processor& processor : processors)
    nodes.insert(processor.node);
  return nodes.size();
}

std::vector<int> parse_processors(std::string_view list) {
  std::vector<int> processors = parse_list(list);
  if (processors.empty()) fail("processors \"", list, "\": expected a list such as 0-3,8");
  const std::vector<Processor> usable = usable_processors();
  std::set<int> seen;
  for (const int processor : processors) {
    if (!seen.insert(processor).second)
      fail("processors \"", list, "\": ", processor, " comes twice");
    if (std::ranges::find(usable, processor, &Processor::number) == usable.end())
      fail("processors \"", list, "\": this process may not run on ", processor);
  }
  return processors;
}

void pin_this_thread(const std::vector<int>& processors) {
  const Set set(hwloc_bitmap_alloc());
  for (const int processor : processors)
    hwloc_bitmap_set(set.get(), static_cast<unsigned>(processor));
  hwloc_set_cpubind(this_machine(), set.get(), HWLOC_CPUBIND_THREAD);
}

}  // namespace graft
