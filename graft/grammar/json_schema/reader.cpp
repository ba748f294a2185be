#include "graft/grammar/json_schema/reader.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/json_schema/numbers.h"
#include "graft/grammar/json_schema/reader_fail.h"

namespace graft::grammar::json {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxMade = 20'000;

// Without effect on what is valid.
constexpr std::array<std::string_view, 18> kAnnotations = {
    "$schema",          "$id",           "$anchor",      "$comment",    "$defs",
    "definitions",      "title",         "default",      "description", "examples",
    "deprecated",       "readOnly",      "writeOnly",    "example",     "contentEncoding",
    "contentMediaType", "contentSchema", "discriminator"};

constexpr std::array<std::string_view, 38> kKeywords = {"type",
                                                        "enum",
                                                        "const",
                                                        "$ref",
                                                        "allOf",
                                                        "anyOf",
                                                        "oneOf",
                                                        "not",
                                                        "if",
                                                        "then",
                                                        "else",
                                                        "minimum",
                                                        "maximum",
                                                        "multipleOf",
                                                        "format",
                                                        "exclusiveMinimum",
                                                        "pattern",
                                                        "minLength",
                                                        "maxLength",
                                                        "exclusiveMaximum",
                                                        "items",
                                                        "prefixItems",
                                                        "contains",
                                                        "additionalItems",
                                                        "minItems",
                                                        "maxItems",
                                                        "uniqueItems",
                                                        "minContains",
                                                        "properties",
                                                        "required",
                                                        "dependencies",
                                                        "patternProperties",
                                                        "minProperties",
                                                        "maxProperties",
                                                        "propertyNames",
                                                        "additionalProperties",
                                                        "unevaluatedItems",
                                                        "unevaluatedProperties"};

bool has(SchemaRef schema, const char* keyword) {
  return schema->contains(keyword);
}

void find_ids(const OrderedJson& value,
              bool is_root,
              bool& has_nested,
              std::map<std::string, SchemaRef>& anchors) {
  if (value.is_array()) {
    for (const OrderedJson& item : value)
      find_ids(item, false, has_nested, anchors);
  }
  if (!value.is_object()) return;
  for (const auto& [key, item] : value.items()) {
    if (key == "enum" || key == "const") continue;
    if (item.is_string() && (key == "$anchor" || key == "$id")) {
      const std::string name = item.get<std::string>();
      if (key == "$anchor") {
        anchors.emplace(name, &value);
      } else if (name.starts_with('#')) {
        anchors.emplace(name.substr(1), &value);
      } else if (!is_root) {
        has_nested = true;
      }
    }
    find_ids(item, false, has_nested, anchors);
  }
}

}  // namespace

Reader::Reader(const OrderedJson& document) : document_(document) {
  paths_[&document_] = "#";
  if (!document_.is_object()) return;
  const auto version = document_.find("$schema");
  if (version != document_.end() && version->is_string()) {
    const auto text = version->get<std::string>();
    if (text.find("json-schema.org/") == std::string::npos)
      fail("#/$schema: ", text, " is not supported, only those of json-schema.org");
    is_draft7_ = text.find("draft-07") != std::string::npos ||
                 text.find("draft-06") != std::string::npos ||
                 text.find("draft-04") != std::string::npos;
  }
  find_ids(document_, true, has_nested_ids_, anchors_);
}

std::string Reader::path_of(SchemaRef schema) const {
  const auto found = paths_.find(schema);
  return found == paths_.end() ? "#" : found->second;
}

std::vector<Form> Reader::read(const std::vector<SchemaRef>& schemas) {
  Forms forms = {Form()};
  for (const SchemaRef schema : schemas)
    forms = merged(forms, read(schema));
  return forms;
}

Reader::Forms Reader::read(SchemaRef schema) {
  if (schema->is_boolean()) return schema->get<bool>() ? Forms{Form()} : Forms{};
  if (!schema->is_object()) fail(path_of(schema), ": a schema must be an object or a boolean");
  if (++depth_ > kMaxDepth) fail(path_of(schema), ": $ref refers to itself");
  Forms forms;
  try {
    forms = read_object(schema);
  } catch (...) {
    --depth_;
    throw;
  }
  --depth_;
  return forms;
}

Reader::Forms Reader::read_object(SchemaRef schema) {
  const auto reference = [&] {
    if (!schema->at("$ref").is_string()) fail_at(schema, "$ref", "it must be a text");
    return read(find_reference(schema, schema->at("$ref").get<std::string>()));
  };
  if (is_draft7_ && has(schema, "$ref")) return reference();
  check_keywords(schema);
  Forms forms = {simple_form(schema)};
  if (forms.front().types == 0) return {};
  if (has(schema, "enum")) {
    if (!schema->at("enum").is_array()) fail_at(schema, "enum", "it must be a list");
    forms = merged(forms, read_enum(schema->at("enum")));
  }
  if (has(schema, "const"))
    forms = merged(forms, read_enum(OrderedJson::array({schema->at("const")})));
  if (has(schema, "$ref")) forms = merged(forms, reference());
  if (has(schema, "allOf")) forms = merged(forms, read_list(schema, "allOf", true));
  if (has(schema, "anyOf")) forms = merged(forms, read_list(schema, "anyOf", false));
  if (has(schema, "oneOf")) forms = merged(forms, read_one_of(schema));
  unsigned types = 0;
  for (const Form& form : forms)
    types |= form.types;
  if (has(schema, "not"))
    forms = merged(forms, negated(read(child(schema, "not")), types, path_of(schema) + "/not"));
  if (has(schema, "if")) forms = merged(forms, read_if(schema, types));
  read_dependencies(schema, forms);
  return forms;
}

void Reader::check_keywords(SchemaRef schema) const {
  for (const auto& [key, value] : schema->items()) {
    const bool is_known = std::ranges::find(kKeywords, key) != kKeywords.end() ||
                          std::ranges::find(kAnnotations, key) != kAnnotations.end() ||
                          key == "dependentRequired" || key == "dependentSchemas" ||
                          key == "maxContains" || key.starts_with("x-");
    if (!is_known) fail_at(schema, key, "this keyword is not supported");
  }
}

// The schema of one array or object, from schemas of its parts.
OrderedJson Reader::schema_of_value(const OrderedJson& value) {
  OrderedJson schema = {{"type", value.is_array() ? "array" : "object"}};
  if (value.is_array()) {
    schema["minItems"] = value.size();
    schema["maxItems"] = value.size();
    for (const OrderedJson& item : value)
      schema["prefixItems"].push_back({{"const", item}});
    return schema;
  }
  schema["properties"] = OrderedJson::object();
  schema["required"] = OrderedJson::array();
  schema["additionalProperties"] = false;
  for (const auto& [key, item] : value.items()) {
    schema["properties"][key] = {{"const", item}};
    schema["required"].push_back(key);
  }
  return schema;
}

Reader::Forms Reader::read_enum(const OrderedJson& values) {
  Forms forms;
  Form scalars = {.types = 0};
  std::vector<std::string> numbers;
  std::vector<std::string> strings;
  for (const OrderedJson& value : values) {
    if (value.is_null()) scalars.types |= kNull;
    if (value.is_boolean()) scalars.types |= value.get<bool>() ? kTrue : kFalse;
    if (value.is_number()) numbers.push_back(decimal_text(value));
    if (value.is_string()) strings.push_back(value.get<std::string>());
    if (!value.is_structured()) continue;
    for (Form& form : read(made(schema_of_value(value))))
      forms.push_back(std::move(form));
  }
  if (!numbers.empty()) {
    scalars.types |= kNumber;
    scalars.numbers = {std::make_shared<const Dfa>(Dfa::of_texts(std::move(numbers)))};
  }
  if (!strings.empty()) {
    scalars.types |= kString;
    scalars.strings = {std::make_shared<const Dfa>(Dfa::of_texts(std::move(strings)))};
  }
  if (scalars.types != 0) forms.push_back(std::move(scalars));
  return forms;
}

Reader::Forms Reader::read_list(SchemaRef schema, const std::string& keyword, bool is_all) {
  const OrderedJson& list = schema->at(keyword);
  if (!list.is_array() || list.empty()) fail_at(schema, keyword, "it must be a list of schemas");
  Forms forms;
  if (is_all) forms = {Form()};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Forms of_part = read(child_of(list[i], path_of(schema) + "/" + keyword + "/" + str(i)));
    if (is_all) {
      forms = merged(forms, of_part);
    } else {
      forms.insert(forms.end(), of_part.begin(), of_part.end());
    }
  }
  return forms;
}

// Alternatives that may both match are made disjoint where that is possible.
Reader::Forms Reader::read_one_of(SchemaRef schema) {
  const OrderedJson& list = schema->at("oneOf");
  if (!list.is_array() || list.empty()) fail_at(schema, "oneOf", "it must be a list of schemas");
  const std::string path = path_of(schema) + "/oneOf";
  std::vector<Forms> parts;
  for (std::size_t i = 0; i < list.size(); ++i)
    parts.push_back(read(child_of(list[i], path + "/" + str(i))));
  Forms forms;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Forms only = parts[i];
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (k == i || are_disjoint(parts[i], parts[k], 0)) continue;
      unsigned types = 0;
      for (const Form& form : only)
        types |= form.types;
      only = merged(only, negated(parts[k], types, path));
    }
    forms.insert(forms.end(), only.begin(), only.end());
  }
  return forms;
}

Reader::Forms Reader::read_if(SchemaRef schema, unsigned types) {
  if (!has(schema, "then") && !has(schema, "else")) return {Form()};
  const Forms condition = read(child(schema, "if"));
  const auto branch = [&](const char* keyword) {
    return has(schema, keyword) ? read(child(schema, keyword)) : Forms{Form()};
  };
  Forms forms = merged(condition, branch("then"));
  for (Form& form : merged(negated(condition, types, path_of(schema) + "/if"), branch("else")))
    forms.push_back(std::move(form));
  return forms;
}

// A property that needs others or a schema: it is absent, or they hold.
void Reader::read_dependencies(SchemaRef schema, Forms& forms) {
  for (const char* keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    if (!has(schema, keyword)) continue;
    const OrderedJson& all = schema->at(keyword);
    if (!all.is_object()) fail_at(schema, keyword, "it must be an object");
    for (const auto& [name, needed] : all.items()) {
      OrderedJson absent = {{"properties", {{name, false}}}};
      Form present = {.types = kObject};
      present.required.push_back(name);
      Forms either = {present};
      if (needed.is_array()) {
        for (const OrderedJson& other : needed)
          either.front().required.push_back(other.get<std::string>());
      } else {
        either =
            merged(either, read(child_of(needed, path_of(schema) + "/" + keyword + "/" + name)));
      }
      for (Form& form : read(made(std::move(absent))))
        either.push_back(std::move(form));
      forms = merged(forms, either);
    }
  }
}

SchemaRef Reader::find_reference(SchemaRef schema, const std::string& reference) {
  if (has_nested_ids_) fail_at(schema, "$ref", "references beside nested $id are not supported");
  if (!reference.starts_with('#')) {
    fail_at(schema, "$ref", "only references inside the schema (#...) are supported, not ",
            reference);
  }
  if (reference.size() > 1 && reference[1] != '/') {
    const auto found = anchors_.find(reference.substr(1));
    if (found == anchors_.end()) fail_at(schema, "$ref", reference, " was not found");
    paths_.emplace(found->second, reference);
    return found->second;
  }
  std::string pointer;
  for (std::size_t i = 1; i < reference.size(); ++i) {
    if (reference[i] != '%' || i + 2 >= reference.size()) {
      pointer += reference[i];
      continue;
    }
    pointer += static_cast<char>(std::strtol(reference.substr(i + 1, 2).c_str(), nullptr, 16));
    i += 2;
  }
  try {
    const OrderedJson& target = document_.at(OrderedJson::json_pointer(pointer));
    paths_.emplace(&target, reference);
    return &target;
  } catch (const OrderedJson::exception&) {
    fail_at(schema, "$ref", reference, " was not found");
  }
}

SchemaRef Reader::child(SchemaRef schema, const std::string& keyword) {
  return child_of(schema->at(keyword), path_of(schema) + "/" + keyword);
}

SchemaRef Reader::child_of(const OrderedJson& value, const std::string& path) {
  paths_.emplace(&value, path);
  return &value;
}

SchemaRef Reader::made(OrderedJson schema) {
  // Each level of a recursive schema may make new ones.
  if (made_.size() == kMaxMade) fail("too large: more than ", kMaxMade, " derived schemas");
  made_.push_back(std::move(schema));
  return &made_.back();
}

}  // namespace graft::grammar::json
