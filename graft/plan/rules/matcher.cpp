#include "graft/plan/rules/matcher.h"

#include <algorithm>

#include "graft/base/error.h"

namespace graft::plan {
namespace {

constexpr std::string_view kCacheName = "kv_cache";

bool in_layers(const std::vector<LayerRange>& ranges, std::int64_t layer) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const LayerRange& range) {
    return range.first <= layer && layer <= range.last;
  });
}

bool same_match(const Rule& a, const Rule& b) {
  return a.name_regex == b.name_regex && a.class_name == b.class_name && a.layers == b.layers &&
         a.role == b.role;
}

std::string lines_text(const std::set<int>& lines) {
  std::string text = lines.size() == 1 ? "line " : "lines ";
  for (const int line : lines)
    text += (line == *lines.begin() ? "" : ", ") + std::to_string(line);
  return text;
}

}  // namespace

Matcher::Matcher(const RuleFile& file, std::span<const ClassBase> class_bases, Collector& findings)
    : class_bases_(class_bases), findings_(findings) {
  for (const Rule& rule : file.rules) {
    Entry entry{.rule = &rule, .name = std::nullopt, .usable = !rule.broken, .shadowed_by = {}};
    if (entry.usable && rule.name_regex) {
      try {
        entry.name.emplace(*rule.name_regex);
      } catch (const Error& error) {
        findings_.error(rule.line, str("match.name is not a regular expression: ", error.what()));
        entry.usable = false;
      }
    }
    entries_.push_back(std::move(entry));
  }
}

bool Matcher::matches(Entry& entry, const ModuleSpec& module) {
  const Rule& rule = *entry.rule;
  if (!entry.usable) return false;
  if (rule.role && *rule.role != module.role) return false;
  if (!rule.layers.empty() && !in_layers(rule.layers, module.layer)) return false;
  if (!rule.class_name.empty() && !is_instance(module.class_name, rule.class_name, class_bases_)) {
    return false;
  }
  if (!entry.name) return true;
  try {
    if (entry.name->search(module.name)) return true;
    if (module.role != ops::Role::KvCache || module.last_name() != kCacheName) return false;
    const std::string parent = module.name.substr(0, module.name.size() - kCacheName.size());
    return entry.name->search(parent + "k_cache") || entry.name->search(parent + "v_cache");
  } catch (const Error& error) {
    // The pattern hit the search limit. Disable it: every further search would take as long.
    findings_.error(rule.line, str("match.name: ", error.what()));
    entry.usable = false;
    return false;
  }
}

// Keys and values are one cache: a rule for the second of them must ask for what the first got.
void Matcher::match_other_half(Entry& entry, const ModuleSpec& module, const Rule& winner) {
  const Rule& rule = *entry.rule;
  if (!entry.name || entry.name->search(module.name)) return;
  if (rule.kwargs == winner.kwargs) {
    ++entry.num_applied;
    return;
  }
  findings_.error(
      rule.line,
      str("keys and values have one cache: its rule must have the kwargs of the rule at "
          "line ",
          winner.line),
      &module, "kwargs of k_cache and v_cache");
}

std::optional<std::size_t> Matcher::match(const ModuleSpec& module, const Rule* stopped_by) {
  std::optional<std::size_t> winner;
  const Rule* first = stopped_by;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!matches(entry, module)) continue;
    ++entry.num_matched;
    if (first != nullptr) {
      entry.shadowed_by.insert(first->line);
      if (winner && module.role == ops::Role::KvCache) match_other_half(entry, module, *first);
    } else {
      ++entry.num_applied;
      winner = i;
      first = entry.rule;
    }
  }
  return winner;
}

void Matcher::report_unused() const {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const Rule& rule = *entry->rule;
    if (!entry->usable || entry->num_applied > 0) continue;
    const auto duplicate = std::find_if(entries_.begin(), entry, [&](const Entry& earlier) {
      return earlier.usable && same_match(*earlier.rule, rule);
    });
    if (duplicate != entry) {
      findings_.warning(rule.line,
                        str("the rule is never applied: it has the same match as the rule at line ",
                            duplicate->rule->line));
    } else if (entry->num_matched == 0) {
      findings_.warning(rule.line, "the rule matches no module of this model");
    } else {
      findings_.warning(rule.line, str("the rule is never applied: all ", entry->num_matched,
                                       " modules it matches are matched first by ",
                                       lines_text(entry->shadowed_by)));
    }
  }
}

}  // namespace graft::plan
