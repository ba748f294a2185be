#include "graft/grammar/json_schema/value_types.h"

#include <algorithm>

namespace graft::grammar {
namespace {

constexpr int kMaxTypeDepth = 8;  // of references and nested schemas

class TypeCollector {
 public:
  explicit TypeCollector(const OrderedJson& document) : document_(document) {}

  void collect(const OrderedJson& schema, int depth) {
    if (!schema.is_object() || depth > kMaxTypeDepth) return;
    for (const auto& [keyword, value] : schema.items()) {
      if (keyword == "type") {
        collect_names(value);
      } else if (keyword == "const") {
        add(type_of(value));
      } else if (keyword == "enum" && value.is_array()) {
        for (const OrderedJson& one : value)
          add(type_of(one));
      } else if ((keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf") &&
                 value.is_array()) {
        for (const OrderedJson& one : value)
          collect(one, depth + 1);
      } else if (keyword == "$ref" && value.is_string()) {
        if (const OrderedJson* found = find(value.get<std::string>())) collect(*found, depth + 1);
      }
    }
  }

  std::vector<std::string> take() { return std::move(types_); }

 private:
  static std::string type_of(const OrderedJson& value) {
    return value.is_number_integer() ? "integer" : value.type_name();
  }

  void collect_names(const OrderedJson& type) {
    if (type.is_string()) add(type.get<std::string>());
    if (!type.is_array()) return;
    for (const OrderedJson& one : type)
      if (one.is_string()) add(one.get<std::string>());
  }

  void add(const std::string& type) {
    if (std::ranges::find(types_, type) == types_.end()) types_.push_back(type);
  }

  const OrderedJson* find(const std::string& reference) const {
    if (!reference.starts_with('#')) return nullptr;
    try {
      const OrderedJson::json_pointer pointer(reference.substr(1));
      return document_.contains(pointer) ? &document_.at(pointer) : nullptr;
    } catch (const OrderedJson::exception&) {
      return nullptr;  // an anchor
    }
  }

  const OrderedJson& document_;
  std::vector<std::string> types_;
};

}  // namespace

std::vector<std::string> value_types(const OrderedJson& document, const OrderedJson& schema) {
  TypeCollector collector(document);
  collector.collect(schema, 0);
  return collector.take();
}

bool is_of_type(const OrderedJson& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();  // object, array, string, boolean, null
}

}  // namespace graft::grammar
