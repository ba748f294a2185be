// Which rule decides about a module, and which rules never do.

#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/collector.h"
#include "graft/plan/rules.h"

namespace graft::plan {

class Matcher {
 public:
  // `file` outlives the matcher.
  Matcher(const RuleFile& file, Collector& findings);

  // Index of the first rule that matches, nothing when there is none or when `stopped_by` (the rule
  // above that is not recursive) keeps rules away. All rules are tried, to know which ones lose.
  std::optional<std::size_t> match(const ModuleSpec& module, const Rule* stopped_by);

  // After the last module: warns of rules that matched nothing or never came first.
  void report_unused() const;

 private:
  struct Entry {
    const Rule* rule = nullptr;
    std::optional<Regex> name;
    bool usable = true;
    std::size_t num_matched = 0;
    std::size_t num_won = 0;
    std::set<int> taken_by;  // lines of the rules that came first
  };
  bool matches(Entry& entry, const ModuleSpec& module);

  Collector& findings_;
  std::vector<Entry> entries_;
};

}  // namespace graft::plan
