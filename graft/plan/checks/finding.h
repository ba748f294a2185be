// An error or warning about a rule file. Findings are collected, not thrown, so that the user sees
// all of them at once.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft::plan {

struct Finding {
  enum class Kind : std::uint8_t { Error, Warning };
  Kind kind = Kind::Error;
  std::string where;  // "rules.yaml:12"; the file alone when `line` is 0
  int line = 0;       // 1-based; 0: not about a line
  std::string text;

  bool operator==(const Finding&) const = default;
};

bool has_errors(const std::vector<Finding>& findings);

// Sorts by line, errors before warnings; stable.
void sort_findings(std::vector<Finding>& findings);

// One line each: "rules.yaml:12: error: …".
std::string findings_text(const std::vector<Finding>& findings);

}  // namespace graft::plan
