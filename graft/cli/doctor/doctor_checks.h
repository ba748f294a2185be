// Evaluates the facts of `graft doctor`: good, warning or broken, with advice. Pure functions of
// the facts, so that tests can use invented machines.

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
  std::string text = {};     // the finding
  std::string advice = {};   // empty when good
};

// One check per subject, in display order.
std::vector<Check> evaluate(const Facts& facts);

// True without broken checks; warnings do not count.
bool can_run(const std::vector<Check>& checks);

}  // namespace graft::cli
