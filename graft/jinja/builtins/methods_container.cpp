// The non-mutating methods of list, tuple, range and dict.

#include <algorithm>
#include <array>

#include "graft/jinja/builtins/builtin.h"

namespace graft::jinja {
namespace {

Value count(Runtime& runtime, Args& args) {
  std::int64_t number = 0;
  const Iterator::Next next = iterate(runtime, args.self);
  for (Value item; next(item);)
    number += equals(runtime.heap, item, args[0]) ? 1 : 0;
  return Value(number);
}

Value index(Runtime& runtime, Args& args) {
  std::size_t size = 0;
  length(args.self, size);
  const auto bound = [&](std::size_t i, std::size_t fallback) {
    if (!args.given(i)) return fallback;
    std::int64_t value = args.integer(i, 0);
    if (value < 0) value = std::max<std::int64_t>(0, value + static_cast<std::int64_t>(size));
    return static_cast<std::size_t>(value);
  };
  const std::size_t start = bound(1, 0);
  const std::size_t stop = bound(2, size);
  const Iterator::Next next = iterate(runtime, args.self);
  std::size_t at = 0;
  for (Value item; at < stop && next(item); ++at) {
    if (at >= start && equals(runtime.heap, item, args[0])) return Value::size(at);
  }
  raise(to_repr(runtime, args[0]), " is not in list");
}

Value get(Runtime& runtime, Args& args) {
  const Value* found = args.self.dict().find(runtime.heap, args[0]);
  if (found != nullptr) return *found;
  return args.given(1) ? args[1] : Value();
}

template <DictView::Of kOf>
Value view(Runtime& runtime, Args& args) {
  return runtime.heap.view(args.self, kOf);
}

// Values are immutable, so the copy is the same object.
Value copy(Runtime& /*runtime*/, Args& args) {
  return args.self;
}

// clang-format off
constexpr std::array kSequenceMethods = {
    Builtin{"count", "/value", 1, count},
    Builtin{"index", "/value start stop", 1, index},
};
constexpr std::array kDictMethods = {
    Builtin{"get", "/key default", 1, get},
    Builtin{"keys", "/", 0, view<DictView::Of::Keys>},
    Builtin{"values", "/", 0, view<DictView::Of::Values>},
    Builtin{"items", "/", 0, view<DictView::Of::Items>},
    Builtin{"copy", "/", 0, copy},
};
// clang-format on

}  // namespace

std::span<const Builtin> sequence_methods() {
  return kSequenceMethods;
}

std::span<const Builtin> dict_methods() {
  return kDictMethods;
}

}  // namespace graft::jinja
