// graft doctor: is this machine fine for graft, and what should I do?

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "graft/base/version.h"
#include "graft/cli/commands.h"
#include "graft/cli/doctor/doctor_checks.h"
#include "graft/cli/doctor/doctor_facts.h"
#include "graft/cli/terminal.h"

namespace graft::cli {
namespace {

struct MarkLook {
  std::string_view sign;
  std::string_view word;  // in JSON
  Tint tint;
};

// Indexed by Mark.
constexpr std::array kLooks = {
    MarkLook{"✓", "good", Tint::Green},
    MarkLook{"!", "warning", Tint::Yellow},
    MarkLook{"✗", "broken", Tint::Red},
};

const MarkLook& look(Mark mark) {
  return kLooks[static_cast<std::size_t>(mark)];
}

std::string closing(const std::vector<Check>& checks) {
  const auto count = [&](Mark mark) { return std::ranges::count(checks, mark, &Check::mark); };
  const auto num_warnings = count(Mark::Warning);
  if (!can_run(checks)) {
    return fmt::format("graft cannot run here until what is marked ✗ is mended ({} of them).",
                       count(Mark::Broken));
  }
  if (num_warnings == 0) return "Everything is fine.";
  return fmt::format("graft runs here; {} could be better.",
                     num_warnings == 1 ? "one thing" : fmt::format("{} things", num_warnings));
}

void print_page(const std::vector<Check>& checks) {
  fmt::print("graft {}\n\n", GRAFT_VERSION);
  for (const Check& check : checks) {
    const MarkLook& mark = look(check.mark);
    fmt::print("  {} {:<12} {}\n", tinted(mark.tint, mark.sign, stdout), check.subject, check.text);
    if (!check.advice.empty())
      fmt::print("    {:<12} {}\n", "", tinted(Tint::Bold, "→ " + check.advice, stdout));
  }
  fmt::print("\n{}\n", closing(checks));
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
                              {"state", look(check.mark).word},
                              {"text", check.text},
                              {"advice", check.advice}});
  }
  return json;
}

int examine(bool json) {
  const Facts facts = gather_facts();
  const std::vector<Check> checks = judge(facts);
  if (json) {
    fmt::print("{}\n",
               page_json(facts, checks).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_page(checks);
  }
  return can_run(checks) ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "Say whether this machine is fine for graft, and what to do");
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] { exit_with(examine(*json)); });
}

}  // namespace graft::cli
