#include "graft/grammar/json_schema/form.h"

#include <algorithm>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/json_schema/numbers.h"

namespace graft::grammar::json {
namespace {

constexpr std::size_t kMaxForms = 128;

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void Bounds::merge(const Bounds& other) {
  min = std::max(min, other.min);
  if (max == kNoMaximum || (other.max != kNoMaximum && other.max < max)) max = other.max;
}

bool Form::has_free_arrays() const {
  return items.empty() && num_items.is_free() && contains.empty() && unique_path.empty();
}

bool Form::has_free_objects() const {
  return properties.empty() && required.empty() && names.empty() && num_properties.is_free();
}

Form merged(const Form& a, const Form& b) {
  Form out = a;
  out.types &= b.types;
  out.is_integer = a.is_integer || b.is_integer;
  append(out.numbers, b.numbers);
  append(out.strings, b.strings);
  out.length.merge(b.length);
  append(out.items, b.items);
  out.num_items.merge(b.num_items);
  append(out.contains, b.contains);
  if (out.unique_path.empty()) out.unique_path = b.unique_path;
  append(out.properties, b.properties);
  for (const std::string& name : b.required) {
    if (std::ranges::find(out.required, name) == out.required.end()) out.required.push_back(name);
  }
  append(out.names, b.names);
  out.num_properties.merge(b.num_properties);
  if (out.properties_path.empty()) out.properties_path = b.properties_path;
  return out;
}

std::vector<Form> merged(const std::vector<Form>& a, const std::vector<Form>& b) {
  std::vector<Form> out;
  for (const Form& first : a) {
    for (const Form& second : b) {
      Form both = merged(first, second);
      if (both.types == 0) continue;
      if (out.size() == kMaxForms)
        fail("more than ", kMaxForms, " combinations of alternatives are not supported");
      out.push_back(std::move(both));
    }
  }
  return out;
}

Dfa numbers_of(const Form& form) {
  Dfa numbers = form.is_integer ? all_integers() : all_numbers();
  for (const Language& language : form.numbers)
    numbers = intersection(numbers, *language);
  return numbers;
}

Dfa strings_of(const Form& form) {
  Dfa strings = all_strings();
  for (const Language& language : form.strings)
    strings = intersection(strings, *language);
  if (form.length.is_free()) return strings;
  if (form.length.max != kNoMaximum && form.length.max < form.length.min) return {};
  return intersection(
      strings, Dfa(repeat(code_points({{0, kMaxCodePoint}}), form.length.min, form.length.max)));
}

std::vector<SchemaRef> schemas_of_property(const Form& form, const std::string& name) {
  std::vector<SchemaRef> schemas;
  for (const PropertyRules& rules : form.properties) {
    bool is_known = false;
    const auto add = [&](SchemaRef schema) {
      schemas.push_back(schema);
      is_known = true;
    };
    for (const auto& [property, schema] : rules.properties)
      if (property == name) add(schema);
    for (const PropertyRules::Pattern& pattern : rules.patterns)
      if (pattern.names->matches(name)) add(pattern.schema);
    if (!is_known && rules.additional != nullptr) schemas.push_back(rules.additional);
  }
  return schemas;
}

std::vector<SchemaRef> schemas_of_item(const Form& form, std::size_t index) {
  std::vector<SchemaRef> schemas;
  for (const ItemRules& rules : form.items) {
    const SchemaRef schema = index < rules.prefix.size() ? rules.prefix[index] : rules.rest;
    if (schema != nullptr) schemas.push_back(schema);
  }
  return schemas;
}

}  // namespace graft::grammar::json
