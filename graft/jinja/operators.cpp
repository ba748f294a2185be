// Python's + - * / // % **. Integers have 64 bits; overflow is an error.

#include <cmath>
#include <optional>

#include "graft/jinja/runtime.h"

namespace graft::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void unsupported(BinaryOp op, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for ", kSymbols[static_cast<std::size_t>(op)], ": '",
        type_name(a), "' and '", type_name(b), "'");
}

[[noreturn]] void overflow() {
  raise("an integer does not fit into 64 bits");
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) raise("integer division or modulo by zero");
  if (b == -1) {
    if (a == INT64_MIN) overflow();
    return -a;
  }
  const std::int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) raise("integer modulo by zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

double float_mod(double a, double b) {
  if (b == 0) raise("float modulo");
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double float_floor_div(double a, double b) {
  if (b == 0) raise("float floor division by zero");
  // As CPython: from the remainder, so that a == (a // b) * b + a % b.
  double rest = std::fmod(a, b);
  double div = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) div -= 1.0;
  if (div == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(div);
  if (div - floored > 0.5) floored += 1.0;
  return floored;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(b) && std::floor(b) != b) raise("complex numbers are not supported");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    raise("(34, 'Numerical result out of range')");
  return result;
}

Value integer_op(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOp::Add:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::Sub:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::Mul:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value(result);
    case BinaryOp::Div:
      if (b == 0) raise("division by zero");
      // long double rounds the quotient once, also for integers above 2^53.
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::FloorDiv:
      return Value(floor_div(a, b));
    case BinaryOp::Mod:
      return Value(floor_mod(a, b));
    case BinaryOp::Pow:
      if (b < 0) return Value(float_power(static_cast<double>(a), static_cast<double>(b)));
      return Value(integer_power(a, b));
  }
  overflow();
}

Value float_op(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return Value(a + b);
    case BinaryOp::Sub:
      return Value(a - b);
    case BinaryOp::Mul:
      return Value(a * b);
    case BinaryOp::Div:
      if (b == 0) raise("float division by zero");
      return Value(a / b);
    case BinaryOp::FloorDiv:
      return Value(float_floor_div(a, b));
    case BinaryOp::Mod:
      return Value(float_mod(a, b));
    case BinaryOp::Pow:
      return Value(float_power(a, b));
  }
  overflow();
}

Value add_texts(Runtime& runtime, const Text& a, const Text& b) {
  runtime.heap.check_memory(a.bytes.size() + b.bytes.size());
  const bool is_markup = a.is_markup || b.is_markup;
  const auto safe = [&](const Text& text) {
    return is_markup && !text.is_markup ? escape_html(text.bytes) : text.bytes;
  };
  return runtime.heap.text(safe(a) + safe(b), is_markup);
}

Value add_lists(Runtime& runtime, const Value& a, const Value& b) {
  runtime.heap.check_memory((a.items().size() + b.items().size()) * sizeof(Value));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::List) ? runtime.heap.list(std::move(items))
                          : runtime.heap.tuple(std::move(items));
}

Value repeat(Runtime& runtime, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(count > 0 ? count : 0);
  const std::size_t unit =
      value.is_text() ? value.str().size() : value.items().size() * sizeof(Value);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(unit, times, &bytes)) bytes = SIZE_MAX;
  runtime.heap.check_memory(bytes);
  if (value.is_text()) {
    std::string out;
    out.reserve(bytes);
    for (std::size_t i = 0; unit > 0 && i < times; ++i)
      out += value.str();
    return runtime.heap.text(std::move(out), value.text().is_markup);
  }
  std::vector<Value> items;
  for (std::size_t i = 0; unit > 0 && i < times; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is(Kind::List) ? runtime.heap.list(std::move(items))
                              : runtime.heap.tuple(std::move(items));
}

bool is_repeatable(const Value& value) {
  return value.is_text() || value.is_sequence();
}

std::optional<Value> sequence_op(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::Mod && a.is_text()) return format_percent(runtime, a, b);
  if (op == BinaryOp::Add) {
    if (a.is_text() && b.is_text()) return add_texts(runtime, a.text(), b.text());
    if (a.is_sequence() && a.kind() == b.kind()) return add_lists(runtime, a, b);
  }
  if (op == BinaryOp::Mul) {
    if (is_repeatable(a) && b.is_integer()) return repeat(runtime, a, b.integer());
    if (is_repeatable(b) && a.is_integer()) return repeat(runtime, b, a.integer());
  }
  return std::nullopt;
}

}  // namespace

Value apply(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return integer_op(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return float_op(op, a.real(), b.real());
  if (const auto result = sequence_op(runtime, op, a, b)) return *result;
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) raise(value->undefined_message());
  }
  unsupported(op, a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) raise(value.undefined_message());
  if (value.is(Kind::Float)) return Value(-value.real());
  if (!value.is_integer()) raise("bad operand type for unary -: '", type_name(value), "'");
  if (value.integer() == INT64_MIN) overflow();
  return Value(-value.integer());
}

Value plus(const Value& value) {
  if (value.is_undefined()) raise(value.undefined_message());
  if (value.is(Kind::Float)) return value;
  if (!value.is_integer()) raise("bad operand type for unary +: '", type_name(value), "'");
  return Value(value.integer());
}

}  // namespace graft::jinja
