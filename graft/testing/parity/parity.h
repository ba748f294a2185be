// Compares every registered operator of a role with the reference: the CPU operator in F32
// arithmetic on dequantized weights. New operators are covered without changes here.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "graft/ops/registry.h"

namespace graft::ops::testing {

struct ParityReport {
  struct Summary {
    std::size_t num_passes = 0;
    // Max error as a fraction of the tolerance, by kind of arithmetic.
    std::map<std::string, double> worst;
  };

  std::vector<std::string> findings;           // one line per difference
  std::map<std::string, Summary> by_operator;  // operators with at least one case
  std::string text() const;                    // one line per operator
};

// All roles that operators can be registered for.
const std::vector<Role>& parity_roles();

// All operators of the role, or one; children are the defaults of the registry.
ParityReport check_role(const Registry& registry, Role role);
ParityReport check_operator(const Registry& registry, const OperatorInfo& op);

}  // namespace graft::ops::testing
