#include "graft/base/processors.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include <sched.h>

#include "graft/base/error.h"

namespace graft {
namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value < CPU_SETSIZE ? std::optional(value) : std::nullopt;
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

// The first of the processors that share a core with this one.
int first_of_core(int processor) {
  std::ifstream file(
      str("/sys/devices/system/cpu/cpu", processor, "/topology/thread_siblings_list"));
  std::string list;
  if (!std::getline(file, list)) return processor;
  const std::vector<int> siblings = parse_list(list);
  return siblings.empty() ? processor : siblings.front();
}

}  // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) processors.push_back(i);
    }
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

std::vector<int> usable_cores() {
  std::vector<int> seen;
  std::vector<int> cores;
  for (const int processor : usable_processors()) {
    const int core = first_of_core(processor);
    if (std::ranges::find(seen, core) != seen.end()) continue;
    seen.push_back(core);
    cores.push_back(processor);
  }
  return cores;
}

std::vector<int> parse_processors(std::string_view list) {
  std::vector<int> processors = parse_list(list);
  if (processors.empty()) fail("processors \"", list, "\": expected a list such as 0-3,8");
  const std::vector<int> usable = usable_processors();
  for (auto it = processors.begin(); it != processors.end(); ++it) {
    if (std::find(processors.begin(), it, *it) != it) {
      fail("processors \"", list, "\": ", *it, " comes twice");
    }
    if (!std::ranges::binary_search(usable, *it)) {
      fail("processors \"", list, "\": this process may not run on ", *it);
    }
  }
  return processors;
}

void pin_this_thread(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace graft
