// Writer: the arguments of tool calls.

#include <algorithm>
#include <memory>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/grammar/json_schema/arguments.h"
#include "graft/grammar/json_schema/json_text.h"
#include "graft/grammar/json_schema/value_types.h"
#include "graft/grammar/json_schema/writer.h"

namespace graft::grammar::json {
namespace {

using ParameterKind = ParameterStyle::Kind;

// Longer texts without a pattern are counted by the automaton, which takes a state per character.
constexpr std::int64_t kMaxCountedText = 500;

bool has_type(const std::vector<std::string>& types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

Expr any_text() {
  return repeat(code_points({{0, kMaxCodePoint}}), 0);
}

Dfa texts_with(const std::vector<std::string>& parts) {
  std::vector<Expr> literals;
  literals.reserve(parts.size());
  for (const std::string& part : parts)
    literals.push_back(literal(part));
  return Dfa(sequence({any_text(), any_of(std::move(literals)), any_text()}));
}

// Texts that lose a line end when they are read.
Dfa texts_with_line_ends() {
  return Dfa(
      any_of({sequence({literal("\n"), any_text()}), sequence({any_text(), literal("\n")})}));
}

// Texts that the reader takes as JSON of these types, and more that begin like it; no types: any.
Dfa json_like(const std::vector<std::string>& types) {
  const Expr blanks = repeat(bytes({{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}}), 0);
  const bool is_any = !has_type(types, "string");
  const auto has = [&](std::string_view type) { return is_any || has_type(types, type); };
  std::vector<Expr> ways;
  if (has("number") || has("integer")) ways.push_back(free_number());
  if (has("boolean")) ways.insert(ways.end(), {boolean(true, true), boolean(false, true)});
  if (has("null")) ways.push_back(literal("null"));
  if (has("object")) ways.push_back(sequence({literal("{"), any_text()}));
  if (has("array")) ways.push_back(sequence({literal("["), any_text()}));
  if (is_any) ways.push_back(sequence({literal("\""), any_text()}));
  return Dfa(sequence({blanks, any_of(std::move(ways)), blanks}));
}

// The types of values that the reader takes as JSON; strings are text.
unsigned json_types(const std::vector<std::string>& types, bool is_integer) {
  if (!has_type(types, "string")) return unsigned{kAllTypes} & ~unsigned{kString};
  unsigned mask = 0;
  if (has_type(types, "number") || (has_type(types, "integer") && is_integer)) mask |= kNumber;
  if (has_type(types, "boolean")) mask |= kTrue | unsigned{kFalse};
  if (has_type(types, "null")) mask |= kNull;
  if (has_type(types, "object")) mask |= kObject;
  if (has_type(types, "array")) mask |= kArray;
  return mask;
}

// Whether the key can be read back from between its marks.
bool is_parameter_key(const std::string& name, ParameterKind kind) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty()) return false;
  if (kind == ParameterKind::Python) {
    return is_word(name.front()) &&
           std::ranges::all_of(name, [&](char c) { return is_word(c) || c == '.' || c == '-'; });
  }
  return name.front() != ' ' && name.back() != ' ' &&
         name.find_first_of("<>\"'\t\r\n") == std::string::npos;
}

std::vector<std::string> names_of(const Form& form) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const PropertyRules& rules : form.properties) {
    for (const auto& [name, schema] : rules.properties)
      add(name);
  }
  std::ranges::for_each(form.required, add);
  return names;
}

}  // namespace

RuleId Writer::arguments(const std::optional<ParameterStyle>& style) {
  const RuleId id = rules_.add("arguments");
  std::vector<Expr> ways;
  for (Form& form : reader_.read(std::vector<SchemaRef>{&document_})) {
    if (!form.allows(kObject)) continue;
    form.types = kObject;
    ways.push_back(style ? parameters(form, *style) : object(form));
  }
  if (ways.empty()) fail("#: the schema allows no object");
  rules_.define(id, any_of(std::move(ways)));
  return id;
}

Expr Writer::parameters(const Form& form, const ParameterStyle& style) {
  ObjectPlan made = {.count = form.num_properties, .separator = style.separator};
  for (const std::string& name : names_of(form)) {
    const bool is_allowed = std::ranges::all_of(
        form.names, [&](const Language& language) { return language->matches(name); });
    const bool is_required = std::ranges::find(form.required, name) != form.required.end();
    if (!is_allowed && !is_required) continue;
    made.known.push_back({.text = is_allowed ? parameter(form, name, style) : nothing(),
                          .is_required = is_required});
  }
  return entries(form, made);
}

std::vector<std::string> Writer::types_of_parameter(const std::string& name) const {
  const auto properties = document_.find("properties");
  if (properties == document_.end() || !properties->is_object()) return {};
  const auto schema = properties->find(name);
  return schema == properties->end() ? std::vector<std::string>() : value_types(document_, *schema);
}

Expr Writer::parameter(const Form& form, const std::string& name, const ParameterStyle& style) {
  if (!is_parameter_key(name, style.kind))
    fail("#/properties/", name, ": the calls of this model cannot have a parameter of this name");
  const std::vector<SchemaRef> schemas = schemas_of_property(form, name);
  const Expr key = sequence({style.before_key, literal(name)});
  if (style.kind == ParameterKind::Python)
    return sequence({key, style.before_json, rule(value(schemas)), style.after_value});
  const std::vector<std::string> types = types_of_parameter(name);
  std::vector<Expr> ways;
  for (Form each : reader_.read(schemas)) {
    if (each.allows(kString))
      ways.push_back(sequence({style.before_text, text_value(each, types, style)}));
    each.types &= style.kind == ParameterKind::Typed ? unsigned{kAllTypes} & ~unsigned{kString}
                                                     : json_types(types, each.is_integer);
    if (each.types != 0) ways.push_back(sequence({style.before_json, write(each)}));
  }
  return sequence({key, any_of(std::move(ways)), style.after_value});
}

Expr Writer::text_value(const Form& form,
                        const std::vector<std::string>& types,
                        const ParameterStyle& style) const {
  const bool is_untyped = style.kind == ParameterKind::Untyped;
  const bool is_text_only = !is_untyped || types == std::vector<std::string>{"string"};
  const std::int64_t length = std::max(form.length.min, form.length.max);
  if (length > kMaxCountedText && form.strings.empty() && is_text_only) {
    if (form.length.max != kNoMaximum && form.length.max < form.length.min) return nothing();
    return repeat(code_points_except({{'<', '<'}, {'\n', '\n'}}), form.length.min, form.length.max);
  }
  Dfa texts = difference(strings_of(form), texts_with(style.excluded));
  if (is_untyped && !style.keeps_line_ends) texts = difference(texts, texts_with_line_ends());
  if (!is_text_only) texts = difference(texts, json_like(types));
  return regular(std::make_shared<const Dfa>(std::move(texts)));
}

}  // namespace graft::grammar::json

namespace graft::grammar {
namespace {

std::string text_member(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (!found->is_string()) fail(name, ": expected a text");
  return found->get<std::string>();
}

json::ParameterStyle parameter_style(const OrderedJson& given,
                                     std::span<const SpecialToken> tokens) {
  if (!given.is_object()) fail("parameters: expected an object");
  const auto text = [&](const char* name) {
    return text_with_tokens(text_member(given, name), tokens);
  };
  json::ParameterStyle style = {.before_key = text("before_key"),
                                .before_text = text("before_text"),
                                .before_json = text("before_json"),
                                .after_value = text("after_value"),
                                .separator = text("separator")};
  const std::string kind = text_member(given, "kind");
  if (kind == "typed") {
    style.kind = json::ParameterStyle::Kind::Typed;
  } else if (kind == "python") {
    style.kind = json::ParameterStyle::Kind::Python;
  } else if (kind != "untyped") {
    fail("parameters.kind: expected typed, untyped or python");
  }
  style.keeps_line_ends = text_member(given, "before_text").ends_with('\n') &&
                          text_member(given, "after_value").starts_with('\n');
  const auto excluded = given.find("excluded");
  if (excluded == given.end()) return style;
  if (!excluded->is_array()) fail("parameters.excluded: expected a list of texts");
  for (const OrderedJson& one : *excluded) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      fail("parameters.excluded: expected a list of texts");
    style.excluded.push_back(one.get<std::string>());
  }
  return style;
}

}  // namespace

RuleId add_arguments(RuleSet& rules,
                     const OrderedJson& description,
                     std::span<const SpecialToken> tokens) {
  const std::string what = "tool " + text_member(description, "tool");
  try {
    const auto schema = description.find("schema");
    if (schema == description.end()) fail("schema: is missing");
    const auto given = description.find("parameters");
    if (given == description.end()) return json::Writer(rules, *schema).arguments(std::nullopt);
    const json::ParameterStyle style = parameter_style(*given, tokens);
    const bool is_python = style.kind == json::ParameterStyle::Kind::Python;
    return json::Writer(rules, *schema, {.is_python = is_python, .avoids_tags = !is_python})
        .arguments(style);
  } catch (const Error& error) {
    fail(what, ": ", error.what());
  } catch (const OrderedJson::exception& error) {
    fail(what, ": schema: ", error.what());
  }
}

}  // namespace graft::grammar
