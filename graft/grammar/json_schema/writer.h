// Writes the forms of a schema as rules.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/grammar/expression.h"
#include "graft/grammar/json_schema/form.h"
#include "graft/grammar/json_schema/reader.h"

namespace graft::grammar::json {

struct WriterStyle {
  bool is_python = false;    // True, False and None besides JSON's spellings
  bool avoids_tags = false;  // no "</" in strings: it may end the value
};

// How the parameters of a call are written (arguments.h).
struct ParameterStyle {
  enum class Kind : std::uint8_t { Typed, Untyped, Python };
  Kind kind = Kind::Untyped;
  Expr before_key;
  Expr before_text;
  Expr before_json;
  Expr after_value;
  Expr separator;
  std::vector<std::string> excluded = {};
  bool keeps_line_ends = false;  // of Untyped: a line end on each side belongs to the marks
};

class Writer {
 public:
  Writer(RuleSet& rules, const OrderedJson& document, const WriterStyle& style = {})
      : rules_(rules), document_(document), reader_(document), style_(style) {}

  // The rule of values that match all schemas.
  RuleId value(std::vector<SchemaRef> schemas);
  // The rule of objects that match the document: as JSON, or as parameters.
  RuleId arguments(const std::optional<ParameterStyle>& style);

 private:
  // A property of an object by its name, or all others with names of a set.
  struct Entry {
    Expr text;  // key, colon and value
    bool is_required = false;
  };
  struct ObjectPlan {
    std::vector<Entry> known = {};
    Expr others = nullptr;  // null: not allowed
    Bounds count = {};
    Expr separator = nullptr;
  };

  Expr write(const Form& form);
  Expr number(const Form& form);
  Expr string(const Form& form);
  RuleId strings_of_one(const Form& form);
  Expr array(const Form& form);
  Expr items(const Form& form, std::size_t index, std::size_t num_prefix);
  Expr items_with_contains(const Form& form);
  Expr item(const Form& form, std::size_t index);
  Expr quoted(const Expr& text) const;
  Expr object(const Form& form);
  Expr entries(const Form& form, const ObjectPlan& plan);
  ObjectPlan plan(const Form& form);
  Expr entry(const Form& form, const std::string& name);
  Expr other_entries(const Form& form, const std::vector<std::string>& known);
  void check_counts(const Form& form, const ObjectPlan& plan) const;
  Expr parameters(const Form& form, const ParameterStyle& style);
  Expr parameter(const Form& form, const std::string& name, const ParameterStyle& style);
  std::vector<std::string> types_of_parameter(const std::string& name) const;
  Expr text_value(const Form& form,
                  const std::vector<std::string>& types,
                  const ParameterStyle& style) const;
  // The entries from `index` on, after `count` others.
  class ObjectRules;

  RuleSet& rules_;
  const OrderedJson& document_;
  Reader reader_;
  WriterStyle style_;
  std::optional<RuleId> any_value_;
  std::map<std::vector<SchemaRef>, RuleId> known_;
  std::map<Language, RuleId> strings_;  // that match one language
};

}  // namespace graft::grammar::json
