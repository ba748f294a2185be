// Finds the rule that applies to a module (the first that matches) and the rules that never apply.
// A KV cache "x.kv_cache" also has the names "x.k_cache" and "x.v_cache".

#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/checks/collector.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {

class Matcher {
 public:
  // `file` and `class_bases` (Blueprint::class_bases) outlive the matcher.
  Matcher(const RuleFile& file, std::span<const ClassBase> class_bases, Collector& findings);

  // Index of the first rule that matches. Null when none does or when `stopped_by`, a rule of an
  // ancestor with `recursive: false`, is set. All rules are tried, to count the shadowed ones.
  std::optional<std::size_t> match(const ModuleSpec& module, const Rule* stopped_by);

  // Call after the last module: warns about rules that matched nothing or were always shadowed.
  void report_unused() const;

 private:
  struct Entry {
    const Rule* rule = nullptr;
    std::optional<Regex> name;
    bool usable = true;
    std::size_t num_matched = 0;
    std::size_t num_applied = 0;
    std::set<int> shadowed_by;  // lines of the earlier rules that matched the same modules
  };
  bool matches(Entry& entry, const ModuleSpec& module);
  void match_other_half(Entry& entry, const ModuleSpec& module, const Rule& winner);

  std::span<const ClassBase> class_bases_;
  Collector& findings_;
  std::vector<Entry> entries_;
};

}  // namespace graft::plan
