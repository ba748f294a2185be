// Reader: negation and disjointness of forms, for not, if and oneOf.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/json_schema/numbers.h"
#include "graft/grammar/json_schema/reader.h"

namespace graft::grammar::json {
namespace {

constexpr int kMaxDisjointDepth = 3;

bool is_allowed_by_any(const std::vector<Form>& forms, Type type) {
  return std::ranges::any_of(forms, [&](const Form& form) { return form.allows(type); });
}

// The types of which the form allows every value.
unsigned free_types(const Form& form) {
  unsigned types = form.types & (unsigned{kNull} | kTrue | kFalse);
  if (form.allows(kNumber) && form.has_free_numbers()) types |= kNumber;
  if (form.allows(kString) && form.has_free_strings()) types |= kString;
  if (form.allows(kArray) && form.has_free_arrays()) types |= kArray;
  if (form.allows(kObject) && form.has_free_objects()) types |= kObject;
  return types;
}

// The values of a type that no form allows.
Language without(const Dfa& all,
                 const std::vector<Form>& forms,
                 Type type,
                 Dfa (*values_of)(const Form&)) {
  Dfa allowed;
  for (const Form& form : forms) {
    if (form.allows(type)) allowed = union_of(allowed, values_of(form));
  }
  return std::make_shared<const Dfa>(difference(all, allowed));
}

}  // namespace

// The forms of values that match none of `forms`, of these types.
Reader::Forms Reader::negated(const Forms& forms, unsigned types, const std::string& path) {
  Form out = {.types = types};
  for (const Form& form : forms)
    out.types &= ~free_types(form);
  if (out.allows(kNumber) && is_allowed_by_any(forms, kNumber))
    out.numbers.push_back(without(all_numbers(), forms, kNumber, numbers_of));
  if (out.allows(kString) && is_allowed_by_any(forms, kString))
    out.strings.push_back(without(all_strings(), forms, kString, strings_of));
  if (out.allows(kArray) && is_allowed_by_any(forms, kArray))
    fail(path, ": arrays that must not match a schema are not supported");
  Forms all;
  if (out.allows(kObject) && is_allowed_by_any(forms, kObject)) {
    negate_objects(forms, {.types = kObject}, all, path);
    out.types &= ~unsigned{kObject};
  }
  if (out.types != 0) all.push_back(std::move(out));
  return all;
}

// One form at a time: some name that it requires is absent, or a property has a wrong value.
void Reader::negate_objects(const Forms& forms, Form rest, Forms& out, const std::string& path) {
  Forms left = {std::move(rest)};
  for (const Form& form : forms) {
    if (!form.allows(kObject)) continue;
    Forms ways;
    const auto add = [&](OrderedJson schema) {
      for (Form& way : read(made(std::move(schema))))
        ways.push_back(std::move(way));
    };
    const bool is_simple = form.names.empty() && form.num_properties.is_free() &&
                           std::ranges::all_of(form.properties, [](const PropertyRules& rules) {
                             return rules.patterns.empty() && rules.additional == nullptr;
                           });
    if (!is_simple) fail(path, ": objects that must not match this schema are not supported");
    for (const std::string& name : form.required)
      add({{"properties", {{name, false}}}});
    for (const PropertyRules& rules : form.properties) {
      for (const auto& [name, schema] : rules.properties) {
        add({{"properties", {{name, {{"not", *schema}}}}},
             {"required", OrderedJson::array({name})}});
      }
    }
    left = merged(left, ways);
  }
  out.insert(out.end(), left.begin(), left.end());
}

bool Reader::are_disjoint(const Forms& a, const Forms& b, int depth) {
  return std::ranges::all_of(a, [&](const Form& first) {
    return std::ranges::all_of(
        b, [&](const Form& second) { return are_disjoint(first, second, depth); });
  });
}

// False: not proven.
bool Reader::are_disjoint(const Form& a, const Form& b, int depth) {
  const unsigned types = a.types & b.types;
  if ((types & (kNull | kTrue | kFalse)) != 0) return false;
  if ((types & kNumber) != 0 && !intersection(numbers_of(a), numbers_of(b)).matches_nothing())
    return false;
  if ((types & kString) != 0 && !intersection(strings_of(a), strings_of(b)).matches_nothing())
    return false;
  if ((types & kArray) != 0 && !have_disjoint_items(a, b, depth)) return false;
  return (types & kObject) == 0 || have_disjoint_properties(a, b, depth);
}

bool Reader::have_disjoint_properties(const Form& a, const Form& b, int depth) {
  if (depth == kMaxDisjointDepth) return false;
  std::vector<std::string> names = a.required;
  names.insert(names.end(), b.required.begin(), b.required.end());
  return std::ranges::any_of(names, [&](const std::string& name) {
    return are_disjoint(read(schemas_of_property(a, name)), read(schemas_of_property(b, name)),
                        depth + 1);
  });
}

bool Reader::have_disjoint_items(const Form& a, const Form& b, int depth) {
  const auto ends_before = [](const Bounds& first, const Bounds& second) {
    return first.max != kNoMaximum && first.max < second.min;
  };
  if (ends_before(a.num_items, b.num_items) || ends_before(b.num_items, a.num_items)) return true;
  if (depth == kMaxDisjointDepth) return false;
  const std::int64_t num_both =
      std::min<std::int64_t>(std::max(a.num_items.min, b.num_items.min), 8);
  for (std::int64_t i = 0; i < num_both; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (are_disjoint(read(schemas_of_item(a, index)), read(schemas_of_item(b, index)), depth + 1))
      return true;
  }
  return false;
}

}  // namespace graft::grammar::json
