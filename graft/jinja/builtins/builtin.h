// Tables of the builtin filters, tests, methods and functions: each row has a name, Python's
// parameter list and a C++ function.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/jinja/runtime.h"

namespace graft::jinja {

// The arguments of one call, indexed by parameter.
class Args {
 public:
  Args(const Value& subject, CallArgs& call) : self(subject), raw(call) {}

  bool given(std::size_t index) const { return !values[index].is(Kind::Missing); }
  // Given and not None.
  bool has(std::size_t index) const { return given(index) && !values[index].is_none(); }
  const Value& operator[](std::size_t index) const { return values[index]; }
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool flag(std::size_t index, bool fallback) const;
  // Raises when the argument is not a string.
  std::string_view text(std::size_t index) const;

  const Value& self;          // what the filter, test or method is applied to
  CallArgs& raw;              // unbound, for functions with parameters "*"
  std::vector<Value> values;  // by parameter; Missing when not given
};

struct Builtin {
  std::string_view name;
  // Parameter names, separated by spaces. "*": any arguments, which the function reads from
  // Args::raw. A leading "/": positional only.
  std::string_view params;
  std::size_t num_required;
  Value (*function)(Runtime& runtime, Args& args);
};

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, CallArgs& args);

// Names are unique within filters, within tests, and within the methods of one type.
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
// A method of the value's type; null for an unknown name.
const Builtin* find_method(const Value& value, std::string_view name);

// A builtin as a value; methods are bound to `self`.
Value make_function(Runtime& runtime, const Builtin& builtin, const Value& self);

// The value of namespace(…), the only one whose attributes templates can set.
struct Namespace : NativeObject {
  bool attribute(Runtime& runtime, std::string_view name, Value& value) override;
  std::string repr(Runtime& runtime) override;
  std::string_view type_name() const override { return "Namespace"; }
  void clear() override { attributes.entries.clear(); }

  Dict attributes;
  bool is_printing = false;  // stops the recursion when it contains itself
};

// Python's dict(…): a mapping or pairs, then keyword arguments.
std::shared_ptr<Dict> dict_of(Runtime& runtime, const CallArgs& args);

}  // namespace graft::jinja
