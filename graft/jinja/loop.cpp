// The values `loop` and macros.

#include <algorithm>
#include <array>

#include "graft/jinja/interpreter.h"

namespace graft::jinja {
namespace {

struct LoopField {
  std::string_view name;
  Value (*read)(Runtime& runtime, Loop& loop);
};

Value item_or_undefined(Runtime& runtime, const Value& item, const char* message) {
  return item.is(Kind::Missing) ? runtime.heap.undefined(message) : item;
}

// clang-format off
constexpr std::array kLoopFields = {
    LoopField{"index", [](Runtime&, Loop& loop) { return Value(loop.index0 + 1); }},
    LoopField{"index0", [](Runtime&, Loop& loop) { return Value(loop.index0); }},
    LoopField{"revindex", [](Runtime&, Loop& loop) { return Value(loop.length() - loop.index0); }},
    LoopField{"revindex0", [](Runtime&, Loop& loop) { return Value(loop.length() - loop.index0 - 1); }},
    LoopField{"first", [](Runtime&, Loop& loop) { return Value(loop.index0 == 0); }},
    LoopField{"last", [](Runtime&, Loop& loop) { return Value(loop.peek().is(Kind::Missing)); }},
    LoopField{"length", [](Runtime&, Loop& loop) { return Value(loop.length()); }},
    LoopField{"depth", [](Runtime&, Loop& loop) { return Value(std::int64_t{loop.depth0} + 1); }},
    LoopField{"depth0", [](Runtime&, Loop& loop) { return Value(std::int64_t{loop.depth0}); }},
    LoopField{"previtem", [](Runtime& runtime, Loop& loop) {
      return item_or_undefined(runtime, loop.before, "there is no previous item");
    }},
    LoopField{"nextitem", [](Runtime& runtime, Loop& loop) {
      return item_or_undefined(runtime, loop.peek(), "there is no next item");
    }},
};
// clang-format on

Value cycle(Runtime& /*runtime*/, Args& args) {
  const auto& values = args.raw.positional;
  if (values.empty()) raise("no items for cycling given");
  const auto& loop = static_cast<const Loop&>(args.self.native());
  return values[static_cast<std::size_t>(loop.index0) % values.size()];
}

// Whether the values differ from those of the previous call.
Value changed(Runtime& runtime, Args& args) {
  auto& loop = static_cast<Loop&>(args.self.native());
  const Value values = runtime.heap.tuple(args.raw.positional);
  const bool is_first = loop.last_changed.is(Kind::Missing);
  if (!is_first && equals(runtime.heap, loop.last_changed, values)) return Value(false);
  // The values may contain the loop itself: a cycle.
  if (is_first) runtime.heap.track_cycle(loop.shared_from_this());
  loop.last_changed = values;
  return Value(true);
}

constexpr std::array kLoopMethods = {
    Builtin{"cycle", "*", 0, cycle},
    Builtin{"changed", "*", 0, changed},
};

}  // namespace

bool Loop::advance(Value& item) {
  if (peek().is(Kind::Missing)) return false;
  item = std::exchange(after, Value::missing());
  ++index0;
  before = std::exchange(current, item);
  return true;
}

const Value& Loop::peek() {
  Value item;
  if (after.is(Kind::Missing) && !has_ended) {
    if (next && next(item)) {
      after = std::move(item);
    } else {
      has_ended = true;
    }
  }
  return after;
}

std::int64_t Loop::length() {
  if (known_length >= 0) return known_length;
  std::size_t size = 0;
  if (!iterable.is_none() && jinja::length(iterable, size))
    return known_length = static_cast<std::int64_t>(size);
  // Read the remaining items to count them, then continue from the buffer.
  auto rest = std::make_shared<std::vector<Value>>();
  for (Value item; !has_ended && next && next(item);) {
    rest->push_back(std::move(item));
    if (heap != nullptr && rest->size() % 1024 == 0)
      heap->check_memory(rest->size() * sizeof(Value));
  }
  known_length =
      static_cast<std::int64_t>(rest->size()) + index0 + 1 + (after.is(Kind::Missing) ? 0 : 1);
  next = [rest, at = std::size_t{0}](Value& item) mutable {
    if (at == rest->size()) return false;
    item = (*rest)[at++];
    return true;
  };
  return known_length;
}

void Loop::finish() {
  if (next && known_length < 0) known_length = index0 + 1;
  clear();
}

void Loop::clear() {
  next = nullptr;
  has_ended = true;
  closure.reset();
  iterable = Value();
  before = current = after = last_changed = Value::missing();
}

bool Loop::attribute(Runtime& runtime, std::string_view name, Value& value) {
  const auto* field = std::ranges::find(kLoopFields, name, &LoopField::name);
  if (field != kLoopFields.end()) {
    value = field->read(runtime, *this);
    return true;
  }
  const Builtin* method = find_builtin(kLoopMethods, name);
  if (method == nullptr) return false;
  value = make_function(runtime, *method, Value(Kind::Native, shared_from_this()));
  return true;
}

Value Loop::call(Runtime& runtime, CallArgs& args) {
  if (args.positional.size() != 1 || !args.named.empty()) raise("loop() takes one iterable");
  return static_cast<Interpreter&>(runtime).call_loop(*this, args.positional[0]);
}

std::string Loop::repr(Runtime& /*runtime*/) {
  return str("<LoopContext ", index0 + 1, "/", length(), ">");
}

bool Macro::attribute(Runtime& runtime, std::string_view name, Value& value) {
  if (name == "name") {
    value = node.name.empty() ? Value() : runtime.heap.text(node.name);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& param : node.param_names)
      names.push_back(runtime.heap.text(param));
    value = runtime.heap.tuple(std::move(names));
  } else if (name == "caller") {
    value = Value(node.uses_caller);
  } else if (name == "catch_kwargs") {
    value = Value(node.uses_kwargs);
  } else if (name == "catch_varargs") {
    value = Value(node.uses_varargs);
  } else {
    return false;
  }
  return true;
}

Value Macro::call(Runtime& runtime, CallArgs& args) {
  return static_cast<Interpreter&>(runtime).call_macro(*this, args);
}

std::string Macro::repr(Runtime& /*runtime*/) {
  return str("<Macro ", node.name.empty() ? "anonymous" : in_quotes(node.name), ">");
}

}  // namespace graft::jinja
