// The state that filters, tests and methods run with (heap, limits, current line), and Python's
// operations on values. Every operation counts its steps in the heap.

#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "graft/jinja/value.h"

namespace graft::jinja {

class Runtime {
 public:
  Runtime(Heap& render_heap, int depth_limit, std::chrono::system_clock::time_point time)
      : heap(render_heap), now(time), max_depth(depth_limit) {}

  Heap& heap;
  const std::chrono::system_clock::time_point now;
  const int max_depth;
  int depth = 0;  // of nested expressions, statements and calls
  int line = 1;   // of the template, for errors
};

// Increments the depth for its lifetime; raises at the limit.
class DepthScope {
 public:
  explicit DepthScope(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.depth > runtime_.max_depth) {
      --runtime_.depth;
      raise("calls and expressions nested deeper than ", runtime_.max_depth);
    }
  }
  DepthScope(const DepthScope&) = delete;
  DepthScope& operator=(const DepthScope&) = delete;
  ~DepthScope() { --runtime_.depth; }

 private:
  Runtime& runtime_;
};

// Python's str() and repr(). Raise when the text exceeds the heap's memory limit.
std::string to_str(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
std::string float_text(double value);
// Python's repr() of a string: 'it', "it's", 'caf\xad'.
std::string in_quotes(std::string_view text);
// str() as a value; text stays as it is, so Markup stays Markup.
Value to_text(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool is_indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// Python's json.dumps().
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// object.name and object[key]: undefined when there is none. Raises for an undefined object.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Python's getattr(): without the keys of a dict.
Value get_plain_attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[start:stop:step]; omitted bounds are None.
Value get_slice(Runtime& runtime,
                const Value& object,
                const Value& start,
                const Value& stop,
                const Value& step);
// Resolves attribute="a.b.0" of filters: object.a.b[0]. Undefined results become `fallback` if it
// is not null.
Value follow_path(Runtime& runtime, Value object, const Value& path, const Value* fallback);

// Python's iter(); raises for values that are not iterable.
Iterator::Next iterate(Runtime& runtime, const Value& value);
// Python's reversed(); raises for values without a known end.
Iterator::Next iterate_reversed(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
std::vector<Value> collect(Runtime& runtime, const Value& value);
bool contains(Runtime& runtime, const Value& container, const Value& item);
// std::string_view::find that counts its work as steps.
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
// Python's format(value, spec), with a specification such as ">8" or ".2f".
std::string format_value(Runtime& runtime, const Value& value, std::string_view spec);

}  // namespace graft::jinja
