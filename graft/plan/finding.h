// Something wrong, or odd, in a rule file: collected, so that a user sees all of it at once.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft::plan {

struct Finding {
  enum class Kind : std::uint8_t { Error, Warning };
  Kind kind = Kind::Error;
  std::string where;  // "rules.yaml:12"; without a line when it is about no rule
  int line = 0;       // the line of `where`, 0 without one
  std::string text;

  bool operator==(const Finding&) const = default;
};

bool has_errors(const std::vector<Finding>& findings);

// By line, errors before warnings; what came first stays first.
void sort_findings(std::vector<Finding>& findings);

// One line each: "rules.yaml:12: error: …".
std::string findings_text(const std::vector<Finding>& findings);

}  // namespace graft::plan
