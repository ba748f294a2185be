// What filters, tests and methods are given: the heap, the limits, and how values are read.

#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "graft/jinja/value.h"

namespace graft::jinja {

class Runtime {
 public:
  Runtime(Heap& counted, int depth_limit, std::chrono::system_clock::time_point time)
      : heap(counted), now(time), max_depth(depth_limit) {}

  Heap& heap;
  const std::chrono::system_clock::time_point now;
  const int max_depth;
  int depth = 0;  // of expressions, statements and calls within each other
  int line = 1;   // of the template; what an error names
};

// One level deeper while it lives.
class Nested {
 public:
  explicit Nested(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.depth > runtime_.max_depth) {
      --runtime_.depth;
      raise("calls and expressions nested deeper than ", runtime_.max_depth);
    }
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ~Nested() { --runtime_.depth; }

 private:
  Runtime& runtime_;
};

// Python's str() and repr(). Refuse what grows beyond the heap's limit.
std::string to_str(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
std::string float_text(double value);
// As Python quotes a string: 'it', "it's", 'caf\xad'.
std::string in_quotes(std::string_view text);
// The text of `value`, as Markup where it is Markup.
Value to_text(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool is_indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// json.dumps().
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// object.name and object["name"]: undefined where there is none. An undefined object is an error.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Only what Python's getattr() finds: no keys of a dict.
Value get_plain_attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[start:stop:step]; None for a bound that is not given.
Value get_slice(Runtime& runtime,
                const Value& object,
                const Value& start,
                const Value& stop,
                const Value& step);
// "a.b.0" followed through `object` as filters do with attribute="a.b.0".
Value follow_path(Runtime& runtime, Value object, const Value& path, const Value* otherwise);

// Python's iter(): raises for what cannot be iterated.
Iterator::Next iterate(Runtime& runtime, const Value& value);
// From the end; raises for what has no end.
Iterator::Next iterate_reversed(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
std::vector<Value> collect(Runtime& runtime, const Value& value);
bool contains(Runtime& runtime, const Value& container, const Value& item);
// std::string_view::find whose work is counted.
std::size_t find_text(Runtime& runtime,
                      std::string_view text,
                      std::string_view part,
                      std::size_t from);

Value call_value(Runtime& runtime, const Value& callee, CallArgs& args);

enum class BinaryOp { Add, Sub, Mul, Div, FloorDiv, Mod, Pow };
Value apply(Runtime& runtime, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

// "%s of %d" % values, and "{} of {total}".format(…).
Value format_percent(Runtime& runtime, const Value& format, const Value& values);
Value format_braces(Runtime& runtime, const Value& format, const CallArgs& args);
std::string escape_html(std::string_view text);
// `value` as str.format prints it with that specification (">8", ".2f").
std::string format_value(Runtime& runtime, const Value& value, std::string_view spec);

}  // namespace graft::jinja
