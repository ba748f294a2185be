// Filters that read a whole sequence.

#include <algorithm>
#include <array>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

Value size_of(Runtime& /*runtime*/, Args& args) {
  std::size_t size = 0;
  if (!length(args.self, size)) raise("object of type '", type_name(args.self), "' has no len()");
  return Value::size(size);
}

Value first(Runtime& runtime, Args& args) {
  Value item;
  if (iterate(runtime, args.self)(item)) return item;
  return runtime.heap.undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, Args& args) {
  Value item;
  if (iterate_reversed(runtime, args.self)(item)) return item;
  return runtime.heap.undefined("No last item, sequence was empty.");
}

Value to_list(Runtime& runtime, Args& args) {
  return runtime.heap.list(collect(runtime, args.self));
}

Value reverse(Runtime& runtime, Args& args) {
  if (args.self.is_text())
    return get_slice(runtime, args.self, Value(), Value(), Value(std::int64_t{-1}));
  if (!args.self.is(Kind::Iterator))
    return runtime.heap.iterator(args.self, iterate_reversed(runtime, args.self));
  std::vector<Value> items = collect(runtime, args.self);
  std::ranges::reverse(items);
  return runtime.heap.list(std::move(items));
}

Value join(Runtime& runtime, Args& args) {
  const std::string separator = args.given(0) ? to_str(runtime, args[0]) : "";
  std::string out;
  bool is_first = true;
  const Iterator::Next next = iterate(runtime, args.self);
  for (Value item; next(item); is_first = false) {
    if (args.has(1)) item = follow_path(runtime, item, args[1], nullptr);
    if (!is_first) out += separator;
    out += to_str(runtime, item);
    runtime.heap.step(1 + separator.size() / 64);
    runtime.heap.check_memory(out.size());
  }
  return runtime.heap.text(std::move(out));
}

Value default_value(Runtime& runtime, Args& args) {
  const bool use = args.self.is_undefined() || (args.flag(1, false) && !truth(args.self));
  if (!use) return args.self;
  return args.given(0) ? args[0] : runtime.heap.text("");
}

Value attr(Runtime& runtime, Args& args) {
  return get_plain_attribute(runtime, args.self, args.text(0));
}

Value ignore_case(Runtime& runtime, const Value& value) {
  return value.is_text() ? runtime.heap.text(lower(value.str())) : value;
}

// The sort key of an item: its attribute, lower-cased unless `case_sensitive`.
class Key {
 public:
  Key(Runtime& runtime, Value path, bool case_sensitive, const Value* fallback = nullptr)
      : runtime_(runtime),
        path_(std::move(path)),
        case_sensitive_(case_sensitive),
        fallback_(fallback) {}

  Value operator()(const Value& item) const {
    const Value value = follow_path(runtime_, item, path_, fallback_);
    return case_sensitive_ ? value : ignore_case(runtime_, value);
  }

 private:
  Runtime& runtime_;
  Value path_;
  bool case_sensitive_;
  const Value* fallback_;
};

using Keyed = std::pair<Value, Value>;  // key, item

void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool descending) {
  std::ranges::stable_sort(items, [&](const Keyed& a, const Keyed& b) {
    return descending ? less(runtime.heap, b.first, a.first) : less(runtime.heap, a.first, b.first);
  });
}

Value items_of(Runtime& runtime, std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed)
    items.push_back(std::move(entry.second));
  return runtime.heap.list(std::move(items));
}

Value optional(const Args& args, std::size_t index) {
  return args.given(index) ? args[index] : Value();
}

// "age,name" sorts by several attributes.
Value sort(Runtime& runtime, Args& args) {
  std::vector<Key> keys;
  const Value path = optional(args, 2);
  const bool case_sensitive = args.flag(1, false);
  if (path.is_text()) {
    std::string_view rest = path.str();
    while (true) {
      const std::size_t comma = rest.find(',');
      keys.emplace_back(runtime, runtime.heap.text(std::string(rest.substr(0, comma))),
                        case_sensitive);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    keys.emplace_back(runtime, path, case_sensitive);
  }
  std::vector<Keyed> items;
  for (Value& item : collect(runtime, args.self)) {
    std::vector<Value> values;
    values.reserve(keys.size());
    for (const Key& key : keys)
      values.push_back(key(item));
    items.emplace_back(runtime.heap.list(std::move(values)), std::move(item));
  }
  sort_keyed(runtime, items, args.flag(0, false));
  return items_of(runtime, items);
}

Value dictsort(Runtime& runtime, Args& args) {
  const bool case_sensitive = args.flag(0, false);
  const std::string_view by = args.given(1) ? args.text(1) : "key";
  if (by != "key" && by != "value") raise("dictsort: by must be 'key' or 'value'");
  if (args.self.is_undefined()) raise(args.self.undefined_message());
  if (!args.self.is(Kind::Dict))
    raise("'", type_name(args.self), "' object has no attribute 'items'");
  std::vector<Keyed> items;
  for (const auto& [key, value] : args.self.dict().entries) {
    const Value& sorted_by = by == "key" ? key : value;
    items.emplace_back(case_sensitive ? sorted_by : ignore_case(runtime, sorted_by),
                       runtime.heap.tuple({key, value}));
  }
  sort_keyed(runtime, items, args.flag(2, false));
  return items_of(runtime, items);
}

Value extreme(Runtime& runtime, Args& args, bool largest) {
  const Key key(runtime, optional(args, 1), args.flag(0, false));
  const Iterator::Next next = iterate(runtime, args.self);
  Value best;
  if (!next(best)) return runtime.heap.undefined("No aggregated item, sequence was empty.");
  Value best_key = key(best);
  for (Value item; next(item);) {
    Value item_key = key(item);
    const bool is_better =
        largest ? less(runtime.heap, best_key, item_key) : less(runtime.heap, item_key, best_key);
    if (!is_better) continue;
    best = item;
    best_key = std::move(item_key);
  }
  return best;
}

Value min(Runtime& runtime, Args& args) {
  return extreme(runtime, args, false);
}
Value max(Runtime& runtime, Args& args) {
  return extreme(runtime, args, true);
}

Value sum(Runtime& runtime, Args& args) {
  Value total = args.given(1) ? args[1] : Value(std::int64_t{0});
  if (total.is_text()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  const Iterator::Next next = iterate(runtime, args.self);
  for (Value item; next(item);) {
    const Value value = args.has(0) ? follow_path(runtime, item, args[0], nullptr) : item;
    total = apply(runtime, BinaryOp::Add, total, value);
  }
  return total;
}

Value groupby(Runtime& runtime, Args& args) {
  const Value* fallback = args.has(1) ? &args[1] : nullptr;
  const Key key(runtime, args[0], args.flag(2, false), fallback);
  std::vector<Keyed> keyed;
  for (Value& item : collect(runtime, args.self)) {
    Value item_key = key(item);
    keyed.emplace_back(std::move(item_key), std::move(item));
  }
  sort_keyed(runtime, keyed, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> items;
    std::size_t end = begin;
    while (end < keyed.size() && equals(runtime.heap, keyed[begin].first, keyed[end].first))
      items.push_back(keyed[end++].second);
    // Keys are compared in lower case; the group has the key of its first item.
    Value name = follow_path(runtime, items[0], args[0], fallback);
    groups.push_back(runtime.heap.group(std::move(name), runtime.heap.list(std::move(items))));
    begin = std::max(end, begin + 1);
  }
  return runtime.heap.list(std::move(groups));
}

// clang-format off
constexpr std::array kSequenceFilters = {
    Builtin{"length", "", 0, size_of},
    Builtin{"count", "", 0, size_of},
    Builtin{"first", "", 0, first},
    Builtin{"last", "", 0, last},
    Builtin{"list", "", 0, to_list},
    Builtin{"reverse", "", 0, reverse},
    Builtin{"join", "d attribute", 0, join},
    Builtin{"default", "default_value boolean", 0, default_value},
    Builtin{"d", "default_value boolean", 0, default_value},
    Builtin{"attr", "name", 1, attr},
    Builtin{"sort", "reverse case_sensitive attribute", 0, sort},
    Builtin{"dictsort", "case_sensitive by reverse", 0, dictsort},
    Builtin{"min", "case_sensitive attribute", 0, min},
    Builtin{"max", "case_sensitive attribute", 0, max},
    Builtin{"sum", "attribute start", 0, sum},
    Builtin{"groupby", "attribute default case_sensitive", 1, groupby},
};
// clang-format on

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace graft::jinja
