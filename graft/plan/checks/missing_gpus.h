// Collects the rules that use GPUs which the machine does not have, for one error that says what to
// do. The rules stay usable for the plan, so that their other errors are found too.

#pragma once

#include <set>

#include "graft/plan/checks/collector.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {

class MissingGpus {
 public:
  explicit MissingGpus(const Machine& machine) : machine_(machine) {}

  // Does nothing when the machine has the device. `line` 0: that of the rule.
  void add(const Rule& rule, int line, Device device);
  // At most one finding, at the first line.
  void report(Collector& findings) const;

 private:
  Machine machine_;
  std::set<const Rule*> rules_;
  std::set<Device> devices_;
  int first_line_ = 0;
};

}  // namespace graft::plan
