// Jinja's tests: `value is name`.

#include <array>

#include "graft/jinja/builtins/builtin.h"

namespace graft::jinja {
namespace {

Value odd(Runtime& runtime, Args& args) {
  const Value rest = apply(runtime, BinaryOp::Mod, args.self, Value(std::int64_t{2}));
  return Value(equals(runtime.heap, rest, Value(std::int64_t{1})));
}

Value even(Runtime& runtime, Args& args) {
  const Value rest = apply(runtime, BinaryOp::Mod, args.self, Value(std::int64_t{2}));
  return Value(equals(runtime.heap, rest, Value(std::int64_t{0})));
}

Value divisible_by(Runtime& runtime, Args& args) {
  const Value rest = apply(runtime, BinaryOp::Mod, args.self, args[0]);
  return Value(equals(runtime.heap, rest, Value(std::int64_t{0})));
}

template <Kind kKind>
Value is_kind(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is(kKind));
}

Value defined(Runtime& /*runtime*/, Args& args) {
  return Value(!args.self.is_undefined());
}

Value is_false(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is(Kind::Bool) && args.self.integer() == 0);
}
Value is_true(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is(Kind::Bool) && args.self.integer() != 0);
}

Value number(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is_number());
}

Value sequence(Runtime& /*runtime*/, Args& args) {
  const Value& value = args.self;
  return Value(value.is_undefined() || value.is_text() || value.is_sequence() ||
               value.is(Kind::Dict) || value.is(Kind::Range));
}

Value iterable(Runtime& /*runtime*/, Args& args) {
  return Value(is_iterable(args.self));
}

Value callable(Runtime& /*runtime*/, Args& args) {
  // Jinja's Undefined has a __call__, which raises.
  return Value(args.self.is_undefined() ||
               (args.self.is(Kind::Native) && args.self.native().is_callable()));
}

Value escaped(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is_text() && args.self.text().is_markup);
}

Value cased(Runtime& runtime, Args& args, std::string_view method) {
  CallArgs none;
  const Value text = runtime.heap.text(to_str(runtime, args.self));
  return call_builtin(runtime, *find_builtin(text_methods(), method), text, none);
}
Value is_lower_text(Runtime& runtime, Args& args) {
  return cased(runtime, args, "islower");
}
Value is_upper_text(Runtime& runtime, Args& args) {
  return cased(runtime, args, "isupper");
}

// Numbers and text have no identity here, so they are compared by value.
Value same_as(Runtime& runtime, Args& args) {
  if (args.self.kind() != args[0].kind()) return Value(false);
  if (args.self.object() && !args.self.is_text())
    return Value(args.self.object() == args[0].object());
  return Value(equals(runtime.heap, args.self, args[0]));
}

Value in(Runtime& runtime, Args& args) {
  return Value(contains(runtime, args[0], args.self));
}

Value is_filter(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is_text() && find_filter(args.self.str()) != nullptr);
}
Value is_test(Runtime& /*runtime*/, Args& args) {
  return Value(args.self.is_text() && find_test(args.self.str()) != nullptr);
}

Value equal(Runtime& runtime, Args& args) {
  return Value(equals(runtime.heap, args.self, args[0]));
}
Value not_equal(Runtime& runtime, Args& args) {
  return Value(!equals(runtime.heap, args.self, args[0]));
}
Value less_than(Runtime& runtime, Args& args) {
  return Value(less(runtime.heap, args.self, args[0]));
}
Value greater_than(Runtime& runtime, Args& args) {
  return Value(less(runtime.heap, args[0], args.self));
}
Value less_equal(Runtime& runtime, Args& args) {
  return Value(less(runtime.heap, args.self, args[0]) || equals(runtime.heap, args.self, args[0]));
}
Value greater_equal(Runtime& runtime, Args& args) {
  return Value(less(runtime.heap, args[0], args.self) || equals(runtime.heap, args.self, args[0]));
}

// clang-format off
constexpr std::array kTests = {
    Builtin{"odd", "", 0, odd},
    Builtin{"even", "", 0, even},
    Builtin{"divisibleby", "num", 1, divisible_by},
    Builtin{"defined", "", 0, defined},
    Builtin{"undefined", "", 0, is_kind<Kind::Undefined>},
    Builtin{"filter", "", 0, is_filter},
    Builtin{"test", "", 0, is_test},
    Builtin{"none", "", 0, is_kind<Kind::None>},
    Builtin{"boolean", "", 0, is_kind<Kind::Bool>},
    Builtin{"false", "", 0, is_false},
    Builtin{"true", "", 0, is_true},
    Builtin{"integer", "", 0, is_kind<Kind::Int>},
    Builtin{"float", "", 0, is_kind<Kind::Float>},
    Builtin{"lower", "", 0, is_lower_text},
    Builtin{"upper", "", 0, is_upper_text},
    Builtin{"string", "", 0, is_kind<Kind::Text>},
    Builtin{"mapping", "", 0, is_kind<Kind::Dict>},
    Builtin{"number", "", 0, number},
    Builtin{"sequence", "", 0, sequence},
    Builtin{"iterable", "", 0, iterable},
    Builtin{"callable", "", 0, callable},
    Builtin{"sameas", "other", 1, same_as},
    Builtin{"escaped", "", 0, escaped},
    Builtin{"in", "seq", 1, in},
    Builtin{"==", "/other", 1, equal},
    Builtin{"eq", "/other", 1, equal},
    Builtin{"equalto", "/other", 1, equal},
    Builtin{"!=", "/other", 1, not_equal},
    Builtin{"ne", "/other", 1, not_equal},
    Builtin{">", "/other", 1, greater_than},
    Builtin{"gt", "/other", 1, greater_than},
    Builtin{"greaterthan", "/other", 1, greater_than},
    Builtin{"ge", "/other", 1, greater_equal},
    Builtin{">=", "/other", 1, greater_equal},
    Builtin{"<", "/other", 1, less_than},
    Builtin{"lt", "/other", 1, less_than},
    Builtin{"lessthan", "/other", 1, less_than},
    Builtin{"<=", "/other", 1, less_equal},
    Builtin{"le", "/other", 1, less_equal},
};
// clang-format on

}  // namespace

std::span<const Builtin> tests() {
  return kTests;
}

}  // namespace graft::jinja
