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

#include "graft/grammar/expression.h"
#include "graft/grammar/json_schema/form.h"
#include "graft/grammar/json_schema/reader.h"

namespace graft::grammar::json {

class Writer {
 public:
  Writer(RuleSet& rules, const OrderedJson& document) : rules_(rules), reader_(document) {}

  // The rule of values that match all schemas.
  RuleId value(std::vector<SchemaRef> schemas);

 private:
  // A property of an object by its name, or all others with names of a set.
  struct Entry {
    Expr text;  // key, colon and value
    bool is_required = false;
  };
  struct ObjectPlan {
    std::vector<Entry> known;
    Expr others;  // null: not allowed
    Bounds count;
  };

  Expr write(const Form& form);
  Expr number(const Form& form);
  Expr string(const Form& form);
  Expr array(const Form& form);
  Expr items(const Form& form, std::size_t index, std::size_t num_prefix);
  Expr items_with_contains(const Form& form);
  Expr item(const Form& form, std::size_t index);
  Expr object(const Form& form);
  ObjectPlan plan(const Form& form);
  Expr entry(const Form& form, const std::string& name);
  Expr other_entries(const Form& form, const std::vector<std::string>& known);
  void check_counts(const Form& form, const ObjectPlan& plan) const;
  // The entries from `index` on, after `count` others.
  class ObjectRules;

  RuleSet& rules_;
  Reader reader_;
  std::optional<RuleId> any_value_;
  std::map<std::vector<SchemaRef>, RuleId> known_;
};

}  // namespace graft::grammar::json
