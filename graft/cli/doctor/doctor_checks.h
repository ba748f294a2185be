// Judges facts: what is fine, what could be better, what keeps graft from running, and what to do.
// Knows no machine but the one it is given, so that any can be made up.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/cli/doctor/doctor_facts.h"

namespace graft::cli {

enum class Mark : std::uint8_t { Good, Warning, Broken };

struct Check {
  Mark mark = Mark::Good;
  std::string subject = {};  // "kernels"
  std::string text = {};     // what is
  std::string advice = {};   // what to do; empty when good
};

// A line for each subject, in the order of the page.
std::vector<Check> judge(const Facts& facts);

// Whether everything needed to run is there; warnings do not count.
bool can_run(const std::vector<Check>& checks);

}  // namespace graft::cli
