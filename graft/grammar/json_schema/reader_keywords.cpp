// Reader: the keywords that belong to one type.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/grammar/json_schema/formats.h"
#include "graft/grammar/json_schema/numbers.h"
#include "graft/grammar/json_schema/pattern.h"
#include "graft/grammar/json_schema/reader.h"
#include "graft/grammar/json_schema/reader_fail.h"
#include "graft/grammar/regex.h"

namespace graft::grammar::json {
namespace {

// Of lists whose entries are compared with each other or nested.
constexpr std::size_t kMaxParts = 1000;

Language shared(Dfa dfa) {
  return std::make_shared<const Dfa>(std::move(dfa));
}

// With the path in front of its Error.
template <class Make>
Language language_at(const std::string& path, const Make& make) {
  try {
    return shared(make());
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

}  // namespace

Form Reader::simple_form(SchemaRef schema) {
  Form form;
  read_types(schema, form);
  read_numbers(schema, form);
  read_strings(schema, form);
  read_arrays(schema, form);
  read_contains(schema, form);
  read_objects(schema, form);
  return form;
}

void Reader::read_types(SchemaRef schema, Form& form) {
  if (!schema->contains("type")) return;
  const OrderedJson& type = schema->at("type");
  const OrderedJson list = type.is_array() ? type : OrderedJson::array({type});
  unsigned types = 0;
  bool has_number = false;
  for (const OrderedJson& each : list) {
    const std::string name = each.is_string() ? each.get<std::string>() : each.dump();
    has_number = has_number || name == "number";
    if (name == "integer") form.is_integer = true;
    if (name == "null") {
      types |= kNull;
    } else if (name == "boolean") {
      types |= kTrue | kFalse;
    } else if (name == "number" || name == "integer") {
      types |= kNumber;
    } else if (name == "string") {
      types |= kString;
    } else if (name == "array") {
      types |= kArray;
    } else if (name == "object") {
      types |= kObject;
    } else {
      fail_at(schema, "type", "unknown type ", name);
    }
  }
  if (has_number) form.is_integer = false;
  form.types = types;
}

void Reader::read_numbers(SchemaRef schema, Form& form) {
  for (const char* keyword :
       {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
    if (!schema->contains(keyword)) continue;
    const std::string_view name = keyword;
    const OrderedJson& value = schema->at(keyword);
    if (!value.is_number()) fail_at(schema, keyword, "it must be a number");
    form.numbers.push_back(language_at(path_of(schema) + "/" + keyword, [&] {
      const std::string number = decimal_text(value);
      if (name == "multipleOf") return multiples_of(number);
      const bool is_exclusive = name.starts_with("exclusive");
      return name.ends_with("inimum") ? numbers_from(number, is_exclusive)
                                      : numbers_up_to(number, is_exclusive);
    }));
  }
}

std::int64_t Reader::count_of(SchemaRef schema,
                              const std::string& keyword,
                              std::int64_t missing) const {
  const auto found = schema->find(keyword);
  if (found == schema->end()) return missing;
  constexpr double kMaxCount = 1e9;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (value < 0 || value > kMaxCount ||
      value != static_cast<double>(static_cast<std::int64_t>(value)))
    fail_at(schema, keyword, "it must be an integer from 0 to 1e9");
  return static_cast<std::int64_t>(value);
}

// Draft 7 lets validators check what strings contain; later drafts have these as annotations.
void Reader::read_content(SchemaRef schema, Form& form) {
  if (!is_draft7_) return;
  if (schema->contains("contentMediaType"))
    fail_at(schema, "contentMediaType", "it is not supported in draft 7");
  const auto encoding = schema->find("contentEncoding");
  if (encoding == schema->end()) return;
  if (*encoding != OrderedJson("base64"))
    fail_at(schema, "contentEncoding", "it is not supported in draft 7, only base64");
  form.strings.push_back(Language(Language(), find_format("base64")));
}

void Reader::read_strings(SchemaRef schema, Form& form) {
  form.length = {.min = count_of(schema, "minLength", 0),
                 .max = count_of(schema, "maxLength", kNoMaximum)};
  for (const char* keyword : {"pattern", "format"}) {
    if (!schema->contains(keyword)) continue;
    if (!schema->at(keyword).is_string()) fail_at(schema, keyword, "it must be a text");
    const auto text = schema->at(keyword).get<std::string>();
    const std::string path = path_of(schema) + "/" + keyword;
    if (keyword == std::string_view("pattern")) {
      form.strings.push_back(language_at(path, [&] { return pattern_strings(text); }));
      continue;
    }
    if (schema->contains("pattern") && names_a_pattern(text)) continue;
    const Dfa* format = find_format(text);
    if (format == nullptr) fail(path, ": the format ", text, " is not supported");
    form.strings.push_back(Language(Language(), format));  // kept for ever
  }
  read_content(schema, form);
}

// unevaluatedX is additionalX where no other schema looks at the same value.
SchemaRef Reader::unevaluated(SchemaRef schema,
                              const std::string& keyword,
                              const std::string& other) {
  if (!schema->contains(keyword)) return nullptr;
  const OrderedJson& value = schema->at(keyword);
  if (schema->contains(other) || value == OrderedJson(true)) return nullptr;
  for (const char* applicator : {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas",
                                 "dependencies", "contains"}) {
    if (schema->contains(applicator))
      fail_at(schema, keyword, "it is not supported beside ", applicator);
  }
  return child(schema, keyword);
}

void Reader::read_arrays(SchemaRef schema, Form& form) {
  form.num_items = {.min = count_of(schema, "minItems", 0),
                    .max = count_of(schema, "maxItems", kNoMaximum)};
  if (schema->contains("uniqueItems") && schema->at("uniqueItems") != OrderedJson(false))
    form.unique_path = path_of(schema) + "/uniqueItems";
  ItemRules rules;
  // A list in items is the older spelling of prefixItems.
  const bool is_old = schema->contains("items") && schema->at("items").is_array();
  const char* prefix = is_old ? "items" : "prefixItems";
  const char* rest = is_old ? "additionalItems" : "items";
  if (schema->contains(prefix)) {
    const OrderedJson& list = schema->at(prefix);
    if (!list.is_array()) fail_at(schema, prefix, "it must be a list of schemas");
    if (list.size() > kMaxParts) fail_at(schema, prefix, "it has more than ", kMaxParts, " items");
    for (std::size_t i = 0; i < list.size(); ++i)
      rules.prefix.push_back(child_of(list[i], path_of(schema) + "/" + prefix + "/" + str(i)));
  }
  if (schema->contains(rest)) rules.rest = child(schema, rest);
  if (rules.rest == nullptr)
    rules.rest = unevaluated(schema, "unevaluatedItems", "additionalItems");
  if (rules.rest != nullptr || !rules.prefix.empty()) form.items.push_back(std::move(rules));
}

void Reader::read_contains(SchemaRef schema, Form& form) {
  if (!schema->contains("contains")) return;
  if (schema->contains("maxContains")) fail_at(schema, "maxContains", "it is not supported");
  const std::int64_t min = count_of(schema, "minContains", 1);
  if (min == 0) return;
  form.contains.push_back(
      {.schema = child(schema, "contains"), .min = min, .path = path_of(schema) + "/contains"});
}

void Reader::read_objects(SchemaRef schema, Form& form) {
  PropertyRules rules = read_properties(schema);
  if (!rules.properties.empty() || !rules.patterns.empty() || rules.additional != nullptr)
    form.properties.push_back(std::move(rules));
  if (schema->contains("required")) {
    const OrderedJson& list = schema->at("required");
    if (!list.is_array()) fail_at(schema, "required", "it must be a list of names");
    if (list.size() > kMaxParts)
      fail_at(schema, "required", "it has more than ", kMaxParts, " names");
    for (const OrderedJson& name : list) {
      if (!name.is_string()) fail_at(schema, "required", "it must be a list of names");
      form.required.push_back(name.get<std::string>());
    }
  }
  form.num_properties = {.min = count_of(schema, "minProperties", 0),
                         .max = count_of(schema, "maxProperties", kNoMaximum)};
  if (!form.num_properties.is_free()) {
    form.properties_path =
        path_of(schema) + (schema->contains("minProperties") ? "/minProperties" : "/maxProperties");
  }
  if (!schema->contains("propertyNames")) return;
  Dfa names;
  for (const Form& each : read(child(schema, "propertyNames")))
    if (each.allows(kString)) names = union_of(names, strings_of(each));
  form.names.push_back(shared(std::move(names)));
}

// The schemas of the object `keyword` by name.
std::vector<std::pair<std::string, SchemaRef>> Reader::schemas_of(SchemaRef schema,
                                                                  const char* keyword) {
  std::vector<std::pair<std::string, SchemaRef>> schemas;
  if (!schema->contains(keyword)) return schemas;
  if (!schema->at(keyword).is_object()) fail_at(schema, keyword, "it must be an object");
  if (schema->at(keyword).size() > kMaxParts)
    fail_at(schema, keyword, "it has more than ", kMaxParts, " properties");
  for (const auto& [name, value] : schema->at(keyword).items())
    schemas.emplace_back(name, child_of(value, str(path_of(schema), "/", keyword, "/", name)));
  return schemas;
}

PropertyRules Reader::read_properties(SchemaRef schema) {
  PropertyRules rules = {.properties = schemas_of(schema, "properties")};
  for (const auto& [name, property] : schemas_of(schema, "patternProperties")) {
    const std::string path = str(path_of(schema), "/patternProperties/", name);
    rules.patterns.push_back(
        {.names = language_at(path, [&pattern = name] { return Dfa(regex_search(pattern)); }),
         .schema = property});
  }
  if (schema->contains("additionalProperties"))
    rules.additional = child(schema, "additionalProperties");
  if (rules.additional == nullptr)
    rules.additional = unevaluated(schema, "unevaluatedProperties", "additionalProperties");
  return rules;
}

}  // namespace graft::grammar::json
