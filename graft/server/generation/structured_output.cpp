#include "graft/server/generation/structured_output.h"

#include <array>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using Kind = StructuredOutput::Kind;

[[noreturn]] void fail_field(const std::string& field, const std::string& what) {
  throw ApiError(400, field + ": " + what, field);
}

StructuredOutput any_object() {
  return {.kind = Kind::JsonSchema, .text = R"({"type": "object"})"};
}

// A schema as JSON, or as text that has it.
StructuredOutput schema_of(const OrderedJson& schema, const std::string& field) {
  if (schema.is_string()) return {.kind = Kind::JsonSchema, .text = schema.get<std::string>()};
  if (!schema.is_object() && !schema.is_boolean()) fail_field(field, "expected a JSON schema");
  return {.kind = Kind::JsonSchema, .text = schema.dump()};
}

StructuredOutput text_of(Kind kind, const OrderedJson& value, const std::string& field) {
  if (!value.is_string()) fail_field(field, "expected a string");
  return {.kind = kind, .text = value.get<std::string>()};
}

StructuredOutput choice_of(const OrderedJson& value, const std::string& field) {
  if (!value.is_array() || value.empty()) fail_field(field, "expected a list of strings");
  for (const OrderedJson& each : value)
    if (!each.is_string()) fail_field(field, "expected a list of strings");
  return {.kind = Kind::Choice, .text = value.dump()};
}

// Clients send empty texts, lists and objects for fields that are not set.
bool is_empty(const OrderedJson& value) {
  return value.is_string() ? value.get_ref<const std::string&>().empty()
                           : value.is_structured() && value.empty();
}

struct Spelling {
  const char* name;
  Kind kind;
};

// vLLM's names of the parts of structured_outputs, then fields of requests.
constexpr std::array<Spelling, 4> kParts = {{{"json", Kind::JsonSchema},
                                             {"regex", Kind::Regex},
                                             {"choice", Kind::Choice},
                                             {"grammar", Kind::Grammar}}};
constexpr std::array<Spelling, 7> kFields = {{{"guided_json", Kind::JsonSchema},
                                              {"guided_regex", Kind::Regex},
                                              {"guided_choice", Kind::Choice},
                                              {"guided_grammar", Kind::Grammar},
                                              {"json_schema", Kind::JsonSchema},
                                              {"regex", Kind::Regex},
                                              {"grammar", Kind::Grammar}}};

StructuredOutput output_of(Kind kind, const OrderedJson& value, const std::string& field) {
  switch (kind) {
    case Kind::JsonSchema:
      return schema_of(value, field);
    case Kind::Choice:
      return choice_of(value, field);
    case Kind::Regex:
    case Kind::Grammar:
      break;
  }
  return text_of(kind, value, field);
}

// vLLM's object with one of json, regex, choice, grammar and json_object.
std::optional<StructuredField> read_parts(const Fields& parts) {
  std::optional<StructuredField> found;
  const auto set = [&](const char* name, StructuredOutput output) {
    const std::string field = str("structured_outputs.", name);
    if (found) fail_field(field, str("only one is allowed, there is also ", found->name));
    found = StructuredField{.name = field, .output = std::move(output)};
  };
  for (const auto& [name, value] : parts.json().items()) {
    if (value.is_null()) continue;
    const std::string field = "structured_outputs." + name;
    bool is_known = false;
    for (const Spelling& part : kParts) {
      if (name != part.name) continue;
      is_known = true;
      set(part.name, output_of(part.kind, value, field));
    }
    if (name == "json_object") {
      is_known = true;
      if (value == OrderedJson(true)) set("json_object", any_object());
    }
    if (!is_known && !(value.is_boolean() && !value.get<bool>()))
      fail_field(field, "is not supported");
  }
  return found;
}

}  // namespace

std::optional<StructuredOutput> read_response_format(const OrderedJson& format,
                                                     const std::string& field) {
  if (!format.is_object()) fail_field(field, "expected an object");
  const Fields fields(format, field + ".");
  const std::string type = fields.required_string("type");
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    // llama.cpp allows a schema here.
    const OrderedJson* schema = fields.find("schema");
    return schema == nullptr ? any_object() : schema_of(*schema, field + ".schema");
  }
  if (type != "json_schema") fail_field(field, str("'", type, "' is not supported"));
  const auto nested = fields.object("json_schema");
  const Fields& owner = nested ? *nested : fields;
  const OrderedJson* schema = owner.find("schema");
  const std::string name = nested ? field + ".json_schema.schema" : field + ".schema";
  if (schema == nullptr) fail_field(name, "is missing");
  owner.boolean("strict");  // the output always matches
  return schema_of(*schema, name);
}

std::optional<StructuredOutput> read_ollama_format(const OrderedJson& format,
                                                   const std::string& field) {
  if (!format.is_string()) return schema_of(format, field);
  const auto text = format.get<std::string>();
  if (text.empty()) return std::nullopt;
  if (text != "json") fail_field(field, str(R"(expected "json" or a schema, got ")", text, "\""));
  return any_object();
}

std::optional<StructuredField> read_structured_output(const Fields& fields) {
  std::optional<StructuredField> found;
  const auto set = [&](StructuredField given) {
    if (found) fail_field(given.name, str("only one is allowed, there is also ", found->name));
    found = std::move(given);
  };
  if (const OrderedJson* format = fields.find("response_format")) {
    if (auto output = read_response_format(*format, "response_format"))
      set({.name = "response_format", .output = *std::move(output)});
  }
  if (const auto parts = fields.object("structured_outputs")) {
    if (auto part = read_parts(*parts)) set(*std::move(part));
  }
  for (const Spelling& spelling : kFields) {
    const OrderedJson* value = fields.find(spelling.name);
    if (value == nullptr || is_empty(*value)) continue;
    set({.name = spelling.name, .output = output_of(spelling.kind, *value, spelling.name)});
  }
  return found;
}

}  // namespace graft::server
