#include "graft/plan/checks/missing_gpus.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace graft::plan {
namespace {

// "this machine has no GPU"
std::string machine_text(const Machine& machine) {
  const std::string subject = machine.plan_only ? "the machine has " : "this machine has ";
  if (machine.num_gpus == 0) return subject + "no GPU";
  if (machine.num_gpus == 1) return subject + "1 GPU (cuda:0)";
  return str(subject, machine.num_gpus, " GPUs (cuda:0 to cuda:", machine.num_gpus - 1, ")");
}

}  // namespace

void MissingGpus::add(const Rule& rule, int line, Device device) {
  if (machine_.has(device)) return;
  if (rules_.contains(&rule) && devices_.contains(device)) return;  // keeps the line of its kwarg
  if (line == 0) line = rule.line;
  first_line_ = rules_.empty() ? line : std::min(first_line_, line);
  rules_.insert(&rule);
  devices_.insert(device);
}

void MissingGpus::report(Collector& findings) const {
  if (rules_.empty()) return;
  std::vector<std::string> names;
  for (const Device device : devices_)
    names.push_back(to_string(device));
  const bool can_run = machine_.num_gpus == 0 && !machine_.plan_only;
  const std::int64_t num_needed = std::int64_t{devices_.rbegin()->index} + 1;
  findings.error(first_line_,
                 str(rules_.size(), rules_.size() == 1 ? " rule places" : " rules place",
                     " modules on ", join(names), ", but ", machine_text(machine_), ": ",
                     can_run ? "run with --device cpu instead of these rules" : "change the device",
                     ", or plan for another machine with --gpus ", num_needed, " --vram 24G"));
}

}  // namespace graft::plan
