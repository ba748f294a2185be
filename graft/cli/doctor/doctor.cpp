// graft doctor: checks this machine and installation, with advice for each problem.

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graft/cli/commands.h"
#include "graft/cli/doctor/doctor_checks.h"
#include "graft/cli/doctor/doctor_facts.h"
#include "graft/cli/terminal.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

struct MarkStyle {
  std::string_view sign;
  std::string_view word;  // in JSON
  Tint tint;
};

// Indexed by Mark.
constexpr std::array kStyles = {
    MarkStyle{"✓", "good", Tint::Green},
    MarkStyle{"!", "warning", Tint::Yellow},
    MarkStyle{"✗", "broken", Tint::Red},
};

const MarkStyle& style(Mark mark) {
  return kStyles[static_cast<std::size_t>(mark)];
}

std::string conclusion(const std::vector<Check>& checks) {
  const auto count = [&](Mark mark) { return std::ranges::count(checks, mark, &Check::mark); };
  const auto num_warnings = count(Mark::Warning);
  if (!can_run(checks)) {
    const auto num_broken = count(Mark::Broken);
    return fmt::format("graft cannot run: {} error{} (✗).", num_broken, num_broken == 1 ? "" : "s");
  }
  if (num_warnings == 0) return "No problems found.";
  return fmt::format("graft can run; {} warning{} (!).", num_warnings,
                     num_warnings == 1 ? "" : "s");
}

void print_page(const std::vector<Check>& checks) {
  fmt::print("graft {}\n\n", GRAFT_VERSION);
  for (const Check& check : checks) {
    const MarkStyle& mark = style(check.mark);
    fmt::print("  {} {:<12} {}\n", tinted(mark.tint, mark.sign, stdout), check.subject, check.text);
    if (!check.advice.empty())
      fmt::print("    {:<12} {}\n", "", tinted(Tint::Bold, "→ " + check.advice, stdout));
  }
  fmt::print("\n{}\n", conclusion(checks));
}

// {"graft": version, "can_run", "facts": {…} (doctor_facts.cpp),
//  "checks": [{"subject", "state": "good" | "warning" | "broken", "text", "advice"}]}
Json page_json(const Facts& facts, const std::vector<Check>& checks) {
  Json json = {{"graft", GRAFT_VERSION},
               {"can_run", can_run(checks)},
               {"facts", to_json(facts)},
               {"checks", Json::array()}};
  for (const Check& check : checks) {
    json["checks"].push_back({{"subject", check.subject},
                              {"state", style(check.mark).word},
                              {"text", check.text},
                              {"advice", check.advice}});
  }
  return json;
}

int run_doctor(bool json) {
  const Facts facts = gather_facts();
  const std::vector<Check> checks = evaluate(facts);
  if (json) {
    fmt::print("{}\n",
               page_json(facts, checks).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_page(checks);
  }
  return can_run(checks) ? 0 : 1;
}

}  // namespace

void add_doctor(Command& app) {
  auto json = std::make_shared<bool>(false);
  Command* command = app.add_subcommand("doctor", "Check this machine and the installation");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] { exit_with(run_doctor(*json)); });
}

}  // namespace graft::cli
