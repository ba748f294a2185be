// Iteration, membership and calls.

#include <algorithm>

#include "graft/jinja/runtime.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

Iterator::Next iterate_items(const Value& value, bool reversed) {
  return [value, reversed, i = std::size_t{0}](Value& next) mutable {
    const std::vector<Value>& items = value.items();
    if (i == items.size()) return false;
    next = items[reversed ? items.size() - 1 - i : i];
    ++i;
    return true;
  };
}

Iterator::Next iterate_text(Runtime& runtime, const Value& value) {
  return [&runtime, value, at = std::size_t{0}](Value& next) mutable {
    const std::string& bytes = value.text().bytes;
    if (at == bytes.size()) return false;
    const std::size_t size = decode_utf8(bytes, at).size;
    next = runtime.heap.text(bytes.substr(at, size));  // characters of Markup are plain
    at += size;
    return true;
  };
}

Iterator::Next iterate_dict(Runtime& runtime, const Value& dict, DictView::Of of, bool reversed) {
  return [&runtime, dict, of, reversed, i = std::size_t{0}](Value& next) mutable {
    const auto& entries = dict.dict().entries;
    if (i == entries.size()) return false;
    const auto& [key, value] = entries[reversed ? entries.size() - 1 - i : i];
    ++i;
    next = of == DictView::Of::Keys     ? key
           : of == DictView::Of::Values ? value
                                        : runtime.heap.tuple({key, value});
    return true;
  };
}

Iterator::Next iterate_range(const Value& value, bool reversed) {
  return [value, reversed, i = std::int64_t{0}](Value& next) mutable {
    const NumberRange& range = value.range();
    const std::int64_t size = range.size();
    if (i == size) return false;
    next = Value(range.at(reversed ? size - 1 - i : i));
    ++i;
    return true;
  };
}

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
    case Kind::Text:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
    case Kind::View:
    case Kind::Range:
    case Kind::Iterator:
      return true;
    default:
      return false;
  }
}

Iterator::Next iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return [](Value& /*next*/) { return false; };
    case Kind::Text:
      return iterate_text(runtime, value);
    case Kind::List:
    case Kind::Tuple:
      return iterate_items(value, false);
    case Kind::Dict:
      return iterate_dict(runtime, value, DictView::Of::Keys, false);
    case Kind::View:
      return iterate_dict(runtime, value.view().dict, value.view().of, false);
    case Kind::Range:
      return iterate_range(value, false);
    case Kind::Iterator:
      return [&runtime, value](Value& next) {
        const DepthScope depth_scope(runtime);
        return value.iterator().next(next);
      };
    default:
      raise("'", type_name(value), "' object is not iterable");
  }
}

Iterator::Next iterate_reversed(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return [](Value& /*next*/) { return false; };
    case Kind::List:
    case Kind::Tuple:
      return iterate_items(value, true);
    case Kind::Dict:
      return iterate_dict(runtime, value, DictView::Of::Keys, true);
    case Kind::View:
      return iterate_dict(runtime, value.view().dict, value.view().of, true);
    case Kind::Range:
      return iterate_range(value, true);
    case Kind::Text: {
      const Value step(std::int64_t{-1});
      return iterate_text(runtime, get_slice(runtime, value, Value(), Value(), step));
    }
    default:
      raise("'", type_name(value), "' object is not reversible");
  }
}

std::vector<Value> collect(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  const Iterator::Next next = iterate(runtime, value);
  for (Value item; next(item);) {
    runtime.heap.step();
    items.push_back(std::move(item));
    if (items.size() % 1024 == 0) runtime.heap.check_memory(items.size() * sizeof(Value));
  }
  return items;
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text())
      raise("'in <string>' requires string as left operand, not ", type_name(item));
    return find_text(runtime, container.str(), item.str(), 0) != std::string_view::npos;
  }
  if (container.is(Kind::Dict)) return container.dict().find(runtime.heap, item) != nullptr;
  if (!is_iterable(container))
    raise("argument of type '", type_name(container), "' is not iterable");
  const Iterator::Next next = iterate(runtime, container);
  for (Value candidate; next(candidate);) {
    if (equals(runtime.heap, candidate, item)) return true;
  }
  return false;
}

std::size_t find_text(Runtime& runtime,
                      std::string_view text,
                      std::string_view part,
                      std::size_t from) {
  // In the worst case `part` is compared at every position.
  runtime.heap.step(1 + (text.size() - std::min(from, text.size())) / 64);
  if (part.size() > 1) runtime.heap.step(text.size() / 4096 * part.size());
  return text.find(part, from);
}

Value call_value(Runtime& runtime, const Value& callee, CallArgs& args) {
  if (callee.is_undefined()) raise(callee.undefined_message());
  if (!callee.is(Kind::Native)) raise("'", type_name(callee), "' object is not callable");
  const DepthScope depth_scope(runtime);
  return callee.native().call(runtime, args);
}

}  // namespace graft::jinja
