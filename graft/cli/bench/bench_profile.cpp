#include "graft/cli/bench/bench_profile.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace graft::cli {
namespace {

ModuleProfile difference(const ModuleProfile& before, const ModuleProfile& after) {
  ModuleProfile profile = after;
  for (const auto& [module, entry] : before) {
    const auto found = profile.find(module);
    if (found == profile.end()) continue;
    found->second.calls -= entry.calls;
    found->second.seconds -= entry.seconds;
  }
  return profile;
}

// The nearest profiled ancestor; end() when there is none.
ModuleProfile::iterator parent_of(std::string_view module, ModuleProfile& profile) {
  for (std::size_t dot = module.rfind('.'); dot != std::string_view::npos;
       dot = module.rfind('.')) {
    module = module.substr(0, dot);
    if (const auto found = profile.find(std::string(module)); found != profile.end()) return found;
  }
  return profile.end();
}

// Replaces layer and expert indices by "*".
std::string wildcard_name(std::string_view module) {
  std::string name;
  while (true) {
    const std::string_view component = module.substr(0, module.find('.'));
    const bool is_index = component.find_first_not_of("0123456789") == std::string_view::npos;
    name += is_index ? "*" : component;
    if (component.size() == module.size()) return name;
    name += '.';
    module.remove_prefix(component.size() + 1);
  }
}

}  // namespace

std::vector<ModuleTime> module_times(const ModuleProfile& before, const ModuleProfile& after) {
  const ModuleProfile all = difference(before, after);
  ModuleProfile exclusive = all;
  for (const auto& [module, entry] : all) {
    const auto parent = parent_of(module, exclusive);
    if (parent != exclusive.end()) parent->second.seconds -= entry.seconds;
  }
  std::map<std::string, ModuleTime> sums;
  for (const auto& [module, entry] : exclusive) {
    if (entry.calls == 0) continue;
    ModuleTime& sum = sums[wildcard_name(module)];
    sum.calls += entry.calls;
    sum.seconds += std::max(entry.seconds, 0.0);
  }
  std::vector<ModuleTime> times;
  times.reserve(sums.size());
  for (const auto& [name, sum] : sums)
    times.push_back({.module = name, .calls = sum.calls, .seconds = sum.seconds});
  std::ranges::stable_sort(times, std::ranges::greater(), &ModuleTime::seconds);
  return times;
}

std::string module_table(const std::vector<ModuleTime>& times) {
  double total = 0;
  for (const ModuleTime& time : times)
    total += time.seconds;
  std::string text = fmt::format("| {:<44} | {:>8} | {:>10} | {:>9} |\n", "module", "calls",
                                 "us/call", "% of time");
  text += fmt::format("|{:-<46}|{:->9}:|{:->11}:|{:->10}:|\n", "", "", "", "");
  for (const ModuleTime& time : times) {
    text += fmt::format("| {:<44} | {:>8} | {:>10.1f} | {:>9.1f} |\n", time.module, time.calls,
                        1e6 * time.seconds / static_cast<double>(time.calls),
                        100 * time.seconds / std::max(total, 1e-12));
  }
  return text;
}

Json module_json(const std::vector<ModuleTime>& times) {
  Json json = Json::array();
  for (const ModuleTime& time : times)
    json.push_back({{"module", time.module}, {"calls", time.calls}, {"seconds", time.seconds}});
  return json;
}

}  // namespace graft::cli
