// What a schema allows, sorted by the type of the value. A schema is a list of forms, of which a
// value must match one; keywords that hold together are merged into one form.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/grammar/dfa.h"

namespace graft::grammar::json {

using SchemaRef = const OrderedJson*;  // a schema of the document, or one made by the reader
using Language = std::shared_ptr<const Dfa>;
inline constexpr std::int64_t kNoMaximum = -1;

// Bits of sets of types.
using Type = std::uint8_t;
inline constexpr Type kNull = 1;
inline constexpr Type kTrue = 2;
inline constexpr Type kFalse = 4;
inline constexpr Type kNumber = 8;
inline constexpr Type kString = 16;
inline constexpr Type kArray = 32;
inline constexpr Type kObject = 64;
inline constexpr Type kAllTypes = 127;

// A count between two bounds.
struct Bounds {
  std::int64_t min = 0;
  std::int64_t max = kNoMaximum;

  void merge(const Bounds& other);
  bool is_free() const { return min == 0 && max == kNoMaximum; }
  bool operator==(const Bounds&) const = default;
};

// properties, patternProperties and additionalProperties of one schema.
struct PropertyRules {
  struct Pattern {
    Language names;
    SchemaRef schema = nullptr;
  };
  std::vector<std::pair<std::string, SchemaRef>> properties = {};
  std::vector<Pattern> patterns = {};
  SchemaRef additional = nullptr;  // null: anything
};

// prefixItems and items of one schema.
struct ItemRules {
  std::vector<SchemaRef> prefix = {};
  SchemaRef rest = nullptr;  // null: anything
};

struct ContainsRule {
  SchemaRef schema = nullptr;
  std::int64_t min = 1;
  std::string path = {};
};

struct Form {
  unsigned types = kAllTypes;  // bits of Type
  bool is_integer = false;     // numbers
  std::vector<Language> numbers = {};
  std::vector<Language> strings = {};  // of values, without quotes and escapes
  Bounds length = {};                  // code points of strings
  std::vector<ItemRules> items = {};
  Bounds num_items = {};
  std::vector<ContainsRule> contains = {};
  std::string unique_path = {};  // of uniqueItems; empty: not required
  std::vector<PropertyRules> properties = {};
  std::vector<std::string> required = {};
  std::vector<Language> names = {};  // of all properties
  Bounds num_properties = {};
  std::string properties_path = {};  // of min- and maxProperties

  bool allows(Type type) const { return (types & type) != 0; }
  bool has_free_numbers() const { return numbers.empty() && !is_integer; }
  bool has_free_strings() const { return strings.empty() && length.is_free(); }
  bool has_free_arrays() const;
  bool has_free_objects() const;
};

Form merged(const Form& a, const Form& b);
// All pairs, without those that allow no type. Throws Error when there are too many.
std::vector<Form> merged(const std::vector<Form>& a, const std::vector<Form>& b);

// The numbers and the strings that a form allows.
Dfa numbers_of(const Form& form);
Dfa strings_of(const Form& form);

// The schemas that the property or the item must match; several patterns can apply to a name.
std::vector<SchemaRef> schemas_of_property(const Form& form, const std::string& name);
std::vector<SchemaRef> schemas_of_item(const Form& form, std::size_t index);

}  // namespace graft::grammar::json
