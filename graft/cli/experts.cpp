// graft experts stats: prints a file of expert statistics (--expert-stats).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/cli/commands.h"
#include "graft/models/expert_stats.h"

namespace graft::cli {
namespace {

// Percent of the pairs of a layer that its most used experts have, a share of all its experts.
double percent_of_top(std::vector<std::uint64_t> pairs, double share) {
  std::ranges::sort(pairs, std::greater());
  const auto total = std::accumulate(pairs.begin(), pairs.end(), std::uint64_t{0});
  const auto count = static_cast<std::ptrdiff_t>(share * static_cast<double>(pairs.size()));
  const auto top = std::accumulate(pairs.begin(), pairs.begin() + count, std::uint64_t{0});
  return total == 0 ? 0.0 : 100.0 * static_cast<double>(top) / static_cast<double>(total);
}

// "17 4 90 …", the most used first.
std::string most_used(const std::vector<std::uint64_t>& pairs) {
  constexpr std::size_t kShown = 8;
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t e) { return pairs[e]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, order.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", order[i]);
  return text + (order.size() > kShown ? " …" : "");
}

// {MODEL: {MODULE: {"pairs": [of every expert], "top_percent": {"10", "25", "50"}}}}
void print_stats_json(const models::ExpertStats& stats) {
  Json json = Json::object();
  for (const auto& [model, modules] : stats) {
    for (const auto& [module, pairs] : modules) {
      json[model][module] = {{"pairs", pairs},
                             {"top_percent",
                              {{"10", percent_of_top(pairs, 0.1)},
                               {"25", percent_of_top(pairs, 0.25)},
                               {"50", percent_of_top(pairs, 0.5)}}}};
    }
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_stats(const std::string& path, bool as_json) {
  const models::ExpertStats stats = models::read_expert_stats(path);
  if (stats.empty()) fail(path, ": no expert statistics");
  if (as_json) return print_stats_json(stats);
  for (const auto& [model, modules] : stats) {
    fmt::print("{}\n{:<36} {:>12} {:>8} {:>8} {:>8}  {}\n", model, "module", "pairs", "top 10 %",
               "top 25 %", "top 50 %", "most used experts");
    for (const auto& [module, pairs] : modules) {
      fmt::print("{:<36} {:>12} {:>6.1f} % {:>6.1f} % {:>6.1f} %  {}\n", module,
                 std::accumulate(pairs.begin(), pairs.end(), std::uint64_t{0}),
                 percent_of_top(pairs, 0.1), percent_of_top(pairs, 0.25),
                 percent_of_top(pairs, 0.5), most_used(pairs));
    }
  }
}

}  // namespace

void add_experts(Command& app) {
  Command* experts = app.add_subcommand("experts", "Statistics of the experts of a model");
  experts->require_subcommand(1);
  Command* stats = experts->add_subcommand(
      "stats", "How often each expert was used, from a file that --expert-stats keeps");
  struct Options {
    std::string path;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  stats->add_option("FILE", options->path, "File of expert statistics")->required();
  stats->add_flag("--json", options->json, "Print JSON");
  stats->callback([options] { print_stats(options->path, options->json); });
}

}  // namespace graft::cli
