#include "graft/grammar/json_schema/writer.h"

#include <algorithm>
#include <memory>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/json_schema.h"
#include "graft/grammar/json_schema/json_text.h"

namespace graft::grammar::json {
namespace {

constexpr std::size_t kMaxRules = 20'000;
constexpr std::size_t kMaxCountedStates = 4000;

Expr comma() {
  return sequence({literal(","), blank()});
}

}  // namespace

RuleId Writer::value(std::vector<SchemaRef> schemas) {
  std::erase_if(schemas, [](SchemaRef schema) {
    return *schema == OrderedJson(true) || *schema == OrderedJson::object();
  });
  std::ranges::sort(schemas);
  schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
  if (schemas.empty()) {
    if (!any_value_) any_value_ = add_any_value(rules_, quoted(free_string()), style_.is_python);
    return *any_value_;
  }
  const auto found = known_.find(schemas);
  if (found != known_.end()) return found->second;
  if (rules_.size() > kMaxRules) fail("schema: too large, more than ", kMaxRules, " rules");
  const RuleId id = rules_.add(reader_.path_of(schemas.front()));
  known_.emplace(schemas, id);
  std::vector<Expr> parts;
  for (const Form& form : reader_.read(schemas))
    parts.push_back(write(form));
  rules_.define(id, any_of(std::move(parts)));
  return id;
}

Expr Writer::write(const Form& form) {
  std::vector<Expr> parts;
  if (form.allows(kObject)) parts.push_back(object(form));
  if (form.allows(kArray)) parts.push_back(array(form));
  if (form.allows(kString)) parts.push_back(string(form));
  if (form.allows(kNumber)) parts.push_back(number(form));
  if (form.allows(kTrue)) parts.push_back(boolean(true, style_.is_python));
  if (form.allows(kFalse)) parts.push_back(boolean(false, style_.is_python));
  if (form.allows(kNull)) parts.push_back(null_value(style_.is_python));
  return any_of(std::move(parts));
}

Expr Writer::number(const Form& form) {
  if (form.has_free_numbers()) return free_number();
  if (form.numbers.empty()) return free_integer();
  return regular(std::make_shared<const Dfa>(numbers_of(form)));
}

// A text in quotes as the style allows it.
Expr Writer::quoted(const Expr& text) const {
  return style_.avoids_tags ? without_tags(text) : text;
}

Expr Writer::string(const Form& form) {
  if (form.has_free_strings()) return quoted(free_string());
  if (form.strings.size() == 1 && form.length.is_free()) return rule(strings_of_one(form));
  if (!form.strings.empty()) return quoted(quoted_string(strings_of(form)));
  if (form.length.max != kNoMaximum && form.length.max < form.length.min) return nothing();
  // Counted characters make a large automaton; '<' as an escape keeps it small.
  const Expr character =
      style_.avoids_tags ? free_character({{.first = '<', .last = '<'}}) : free_character();
  return sequence(
      {literal("\""), repeat(character, form.length.min, form.length.max), literal("\"")});
}

// Formats are large: one rule for all properties that have one.
RuleId Writer::strings_of_one(const Form& form) {
  const auto [known, is_new] = strings_.try_emplace(form.strings.front(), RuleId());
  if (is_new) {
    known->second = rules_.add("string");
    rules_.define(known->second, quoted(quoted_string(strings_of(form))));
  }
  return known->second;
}

Expr Writer::item(const Form& form, std::size_t index) {
  return rule(value(schemas_of_item(form, index)));
}

Expr Writer::array(const Form& form) {
  const Bounds& count = form.num_items;
  if (count.max != kNoMaximum && count.max < count.min) return nothing();
  const bool is_short = count.max == 0 || count.max == 1;
  if (!form.unique_path.empty() && !is_short)
    fail(form.unique_path, ": it is supported only with maxItems up to 1");
  Expr elements;
  if (form.contains.empty()) {
    std::size_t num_prefix = 0;
    for (const ItemRules& rules : form.items)
      num_prefix = std::max(num_prefix, rules.prefix.size());
    elements = items(form, 0, num_prefix);
  } else {
    elements = items_with_contains(form);
  }
  return sequence({literal("["), blank(), elements, blank(), literal("]")});
}

// The items from `index` on, with a comma before all but the first.
Expr Writer::items(const Form& form, std::size_t index, std::size_t num_prefix) {
  const auto at = static_cast<std::int64_t>(index);
  const std::int64_t min = std::max<std::int64_t>(form.num_items.min - at, 0);
  const std::int64_t max = form.num_items.max == kNoMaximum ? kUnlimited : form.num_items.max - at;
  if (max == 0) return empty();
  const Expr separator = index == 0 ? empty() : comma();
  if (index < num_prefix) {
    const Expr all = sequence({separator, item(form, index), items(form, index + 1, num_prefix)});
    return min > 0 ? all : optional(all);
  }
  const Expr rest = item(form, index);
  if (index > 0) return repeat(sequence({comma(), rest}), min, max);
  const Expr all =
      sequence({rest, repeat(sequence({comma(), rest}), std::max<std::int64_t>(min - 1, 0),
                             max == kUnlimited ? kUnlimited : max - 1)});
  return min > 0 ? all : optional(all);
}

// A rule per number of items so far and number of those that match `contains`.
Expr Writer::items_with_contains(const Form& form) {
  const ContainsRule& contains = form.contains.front();
  if (form.contains.size() > 1)
    fail(form.contains[1].path, ": several contains are not supported together");
  const std::int64_t num_counted =
      form.num_items.max == kNoMaximum ? form.num_items.min : form.num_items.max;
  auto num_steps = static_cast<std::size_t>(std::max<std::int64_t>(num_counted, 1));
  for (const ItemRules& rules : form.items)
    num_steps = std::max(num_steps, rules.prefix.size());
  const auto num_wanted = static_cast<std::size_t>(contains.min);
  if ((num_steps + 1) * (num_wanted + 1) > kMaxCountedStates)
    fail(contains.path, ": the numbers of items are too large");
  std::vector<RuleId> ids;
  for (std::size_t i = 0; i < (num_steps + 1) * (num_wanted + 1); ++i)
    ids.push_back(rules_.add(contains.path));
  const auto id_of = [&](std::size_t index, std::size_t found) {
    return ids[std::min(index, num_steps) * (num_wanted + 1) + std::min(found, num_wanted)];
  };
  for (std::size_t i = 0; i <= num_steps; ++i) {
    std::vector<SchemaRef> both = schemas_of_item(form, i);
    const Expr plain = rule(value(both));
    both.push_back(contains.schema);
    const Expr matching = rule(value(both));
    const Expr separator = i == 0 ? empty() : comma();
    const bool can_end = static_cast<std::int64_t>(i) >= form.num_items.min;
    const bool can_go_on =
        form.num_items.max == kNoMaximum || static_cast<std::int64_t>(i) < form.num_items.max;
    for (std::size_t found = 0; found <= num_wanted; ++found) {
      std::vector<Expr> ways;
      if (can_end && found == num_wanted) ways.push_back(empty());
      if (can_go_on) {
        ways.push_back(sequence({separator, plain, rule(id_of(i + 1, found))}));
        if (found < num_wanted)
          ways.push_back(sequence({separator, matching, rule(id_of(i + 1, found + 1))}));
      }
      rules_.define(id_of(i, found), any_of(std::move(ways)));
    }
  }
  return rule(id_of(0, 0));
}

}  // namespace graft::grammar::json

namespace graft::grammar {

RuleId add_json_schema(RuleSet& rules, const OrderedJson& schema) {
  try {
    return json::Writer(rules, schema).value({&schema});
  } catch (const OrderedJson::exception& error) {
    fail("schema: ", error.what());
  }
}

}  // namespace graft::grammar
