// Filters, tests, methods and functions are rows of tables: a name, Python's parameters, a
// function.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/jinja/runtime.h"

namespace graft::jinja {

// The arguments of one call by the place of their parameter.
class Args {
 public:
  Args(const Value& subject, CallArgs& call) : self(subject), raw(call) {}

  bool given(std::size_t index) const { return !values[index].is(Kind::Missing); }
  // Given and not None.
  bool has(std::size_t index) const { return given(index) && !values[index].is_none(); }
  const Value& operator[](std::size_t index) const { return values[index]; }
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  bool flag(std::size_t index, bool otherwise) const;
  // Raises when it is no string.
  std::string_view text(std::size_t index) const;

  const Value& self;          // what the filter, test or method is applied to
  CallArgs& raw;              // all of them, for functions that take any
  std::vector<Value> values;  // Missing where not given
};

struct Builtin {
  std::string_view name;
  // Names of the parameters, with a space between. "*": any, the function reads Args::raw. A
  // leading "/": they cannot be given by name.
  std::string_view params;
  std::size_t num_required;
  Value (*function)(Runtime& runtime, Args& args);
};

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, CallArgs& args);

// The tables. Names are unique in each group.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> lazy_filters();
std::span<const Builtin> tests();
std::span<const Builtin> text_methods();
std::span<const Builtin> text_search_methods();
std::span<const Builtin> sequence_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> cycler_methods();
std::span<const Builtin> functions();  // range, namespace, raise_exception …

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
// A method of the value's type.
const Builtin* find_method(const Value& value, std::string_view name);

// A row of a table as a value; bound to `self` when it is a method.
Value make_function(Runtime& runtime, const Builtin& builtin, const Value& self);
// namespace(…); attributes can be set.
struct Namespace : Thing {
  bool attribute(Runtime& runtime, std::string_view name, Value& value) override;
  std::string repr(Runtime& runtime) override;
  std::string_view type_name() const override { return "Namespace"; }
  void clear() override { attributes.entries.clear(); }

  Dict attributes;
  bool is_printing = false;  // it may contain itself
};
// dict(…) of Python: a mapping or pairs, then names.
std::shared_ptr<Dict> dict_of(Runtime& runtime, const CallArgs& args);

}  // namespace graft::jinja
