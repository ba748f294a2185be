// Writer: objects.

#include <algorithm>
#include <memory>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/json_schema/writer.h"

namespace graft::grammar::json {
namespace {

constexpr std::size_t kMaxPatterns = 5;
constexpr std::size_t kMaxObjectRules = 20'000;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> known_names(const Form& form) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!contains(names, name)) names.push_back(name);
  };
  for (const PropertyRules& rules : form.properties) {
    for (const auto& [name, schema] : rules.properties)
      add(name);
  }
  for (const std::string& name : form.required)
    add(name);
  return names;
}

Dfa unknown_names(const Form& form, const std::vector<std::string>& known) {
  Dfa names = difference(all_strings(), Dfa::of_texts(known));
  for (const Language& language : form.names)
    names = intersection(names, *language);
  return names;
}

// The schemas of properties whose names match these patterns.
std::vector<SchemaRef> schemas_of_names(const Form& form, std::size_t mask) {
  std::vector<SchemaRef> schemas;
  std::size_t next = 0;
  for (const PropertyRules& rules : form.properties) {
    bool is_known = false;
    for (const PropertyRules::Pattern& pattern : rules.patterns) {
      if ((mask >> next++ & 1U) == 0) continue;
      schemas.push_back(pattern.schema);
      is_known = true;
    }
    if (!is_known && rules.additional != nullptr) schemas.push_back(rules.additional);
  }
  return schemas;
}

}  // namespace

// Right-recursive rules over the entries in order. The state: the next known entry, and how many
// entries there were, up to where it matters: for the comma, and for the bounds of the count.
class Writer::ObjectRules {
 public:
  ObjectRules(RuleSet& rules, const ObjectPlan& plan, const std::string& name)
      : rules_(rules),
        plan_(plan),
        name_(name),
        max_count_(plan.count.is_free()
                       ? 1
                       : static_cast<std::size_t>(std::max(plan.count.min, plan.count.max + 1))) {
    if (max_count_ * plan_.known.size() > kMaxObjectRules)
      fail(name, ": too large with ", plan_.known.size(), " properties");
  }

  RuleId rule_of(std::size_t index, std::size_t count) {
    count = std::min(count, max_count_);
    const auto found = ids_.find({index, count});
    if (found != ids_.end()) return found->second;
    const RuleId id = rules_.add(name_);
    ids_.emplace(std::pair(index, count), id);
    open_.emplace_back(index, count);
    return id;
  }

  Expr write() {
    const RuleId root = rule_of(0, 0);
    while (!open_.empty()) {
      const auto [index, count] = open_.back();
      open_.pop_back();
      const RuleId id = rule_of(index, count);
      rules_.define(id, body(index, count));
    }
    return rule(root);
  }

 private:
  Expr after_comma(std::size_t count, const Expr& entry) const {
    return count == 0 ? entry : sequence({plan_.separator, entry});
  }
  Expr body(std::size_t index, std::size_t count) {
    if (plan_.count.max != kNoMaximum && static_cast<std::int64_t>(count) > plan_.count.max)
      return nothing();
    std::vector<Expr> ways;
    if (index == plan_.known.size()) {
      if (static_cast<std::int64_t>(count) >= plan_.count.min) ways.push_back(empty());
      if (plan_.others != nullptr) {
        ways.push_back(
            sequence({after_comma(count, plan_.others), rule(rule_of(index, count + 1))}));
      }
      return any_of(std::move(ways));
    }
    const Entry& entry = plan_.known[index];
    ways.push_back(sequence({after_comma(count, entry.text), rule(rule_of(index + 1, count + 1))}));
    if (!entry.is_required) ways.push_back(rule(rule_of(index + 1, count)));
    return any_of(std::move(ways));
  }

  RuleSet& rules_;
  const ObjectPlan& plan_;
  const std::string& name_;
  std::size_t max_count_;  // larger counts are equal
  std::map<std::pair<std::size_t, std::size_t>, RuleId> ids_;
  std::vector<std::pair<std::size_t, std::size_t>> open_;
};

Expr Writer::object(const Form& form) {
  const ObjectPlan made = plan(form);
  check_counts(form, made);
  return sequence({literal("{"), blank(), entries(form, made), blank(), literal("}")});
}

Expr Writer::entries(const Form& form, const ObjectPlan& plan) {
  const std::string name = form.properties_path.empty() ? "object" : form.properties_path;
  return ObjectRules(rules_, plan, name).write();
}

Writer::ObjectPlan Writer::plan(const Form& form) {
  const std::vector<std::string> names = known_names(form);
  ObjectPlan out;
  for (const std::string& name : names) {
    const bool is_allowed = std::ranges::all_of(
        form.names, [&](const Language& language) { return language->matches(name); });
    const bool is_required = contains(form.required, name);
    if (!is_allowed && !is_required) continue;
    out.known.push_back(
        {.text = is_allowed ? entry(form, name) : nothing(), .is_required = is_required});
  }
  out.others = other_entries(form, names);
  out.count = form.num_properties;
  out.separator = sequence({literal(","), blank()});
  return out;
}

Expr Writer::entry(const Form& form, const std::string& name) {
  return sequence({quoted(quoted_string(name)), literal(":"), blank(),
                   rule(value(schemas_of_property(form, name)))});
}

// Entries with other names. Names are sorted by the patterns that they match: bit i of a mask is
// pattern i of all.
Expr Writer::other_entries(const Form& form, const std::vector<std::string>& known) {
  std::vector<const Dfa*> patterns;
  for (const PropertyRules& rules : form.properties) {
    for (const PropertyRules::Pattern& pattern : rules.patterns)
      patterns.push_back(pattern.names.get());
  }
  if (patterns.size() > kMaxPatterns)
    fail("schema: more than ", kMaxPatterns, " patternProperties together are not supported");
  const bool is_free = patterns.empty() && form.names.empty() && known.empty();
  const Dfa rest = is_free ? Dfa() : unknown_names(form, known);
  std::vector<Expr> ways;
  for (std::size_t mask = 0; mask < std::size_t{1} << patterns.size(); ++mask) {
    Dfa names = rest;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool is_match = (mask >> i & 1U) != 0;
      names = is_match ? intersection(names, *patterns[i]) : difference(names, *patterns[i]);
    }
    const std::vector<SchemaRef> schemas = schemas_of_names(form, mask);
    const bool is_refused = std::ranges::any_of(
        schemas, [](SchemaRef schema) { return *schema == OrderedJson(false); });
    if (is_refused || (!is_free && names.matches_nothing())) continue;
    ways.push_back(sequence({quoted(is_free ? free_string() : quoted_string(names)), literal(":"),
                             blank(), rule(value(schemas))}));
  }
  return ways.empty() ? nullptr : any_of(std::move(ways));
}

// Equal names among the others count once for minProperties, which an automaton cannot see.
void Writer::check_counts(const Form& form, const ObjectPlan& plan) const {
  const auto num_required = static_cast<std::int64_t>(form.required.size());
  if (plan.others == nullptr || plan.count.min <= 1 || plan.count.min <= num_required) return;
  fail(form.properties_path, ": a minimum above 1 is supported only without additional properties");
}

}  // namespace graft::grammar::json
