// Filters that return an iterator: items are computed on demand and can be read once.

#include <algorithm>
#include <array>
#include <memory>

#include "graft/jinja/builtins/builtin.h"

namespace graft::jinja {
namespace {

// Starts iterating over `source` when the first item is requested, as a Python generator does.
class LazySource {
 public:
  // `skip_if_false`: a falsy source (None, undefined) yields no items instead of an error.
  LazySource(Runtime& runtime, Value source, bool skip_if_false)
      : runtime_(runtime), source_(std::move(source)), skip_if_false_(skip_if_false) {}

  bool next(Value& item) {
    if (!next_) {
      if (skip_if_false_ && !truth(source_)) return false;
      next_ = iterate(runtime_, source_);
    }
    runtime_.heap.step();
    return next_(item);
  }

 private:
  Runtime& runtime_;
  Value source_;
  bool skip_if_false_;
  Iterator::Next next_;
};

// The values that the iterator captures, as one tuple: the iterator inherits its nesting.
Value captured_values(Runtime& runtime, const Args& args) {
  std::vector<Value> all = args.raw.positional;
  all.push_back(args.self);
  for (const auto& [name, value] : args.raw.named)
    all.push_back(value);
  return runtime.heap.tuple(std::move(all));
}

Value call_filter(Runtime& runtime, const Value& name, const Value& item, CallArgs args) {
  const Builtin* filter = name.is_text() ? find_filter(name.str()) : nullptr;
  if (filter == nullptr) raise("No filter named ", to_repr(runtime, name), " found.");
  return call_builtin(runtime, *filter, item, args);
}

bool call_test(Runtime& runtime, const Value& name, const Value& item, CallArgs args) {
  const Builtin* test = name.is_text() ? find_test(name.str()) : nullptr;
  if (test == nullptr) raise("No test named ", to_repr(runtime, name), " found.");
  return truth(call_builtin(runtime, *test, item, args));
}

// map(attribute="name", default=…).
Value map_attribute(Runtime& runtime, const Args& args) {
  Value path;
  Value fallback;
  for (const auto& [name, value] : args.raw.named) {
    if (name != "attribute" && name != "default") raise("Unexpected keyword argument '", name, "'");
    (name == "attribute" ? path : fallback) = value;
  }
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, path, fallback,
       source = LazySource(runtime, args.self, true)](Value& item) mutable {
        if (!source.next(item)) return false;
        item = follow_path(runtime, item, path, fallback.is_none() ? nullptr : &fallback);
        return true;
      });
}

Value map(Runtime& runtime, Args& args) {
  const bool by_attribute =
      args.raw.positional.empty() &&
      std::ranges::any_of(args.raw.named, [](const auto& arg) { return arg.first == "attribute"; });
  if (by_attribute) return map_attribute(runtime, args);
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, call = args.raw,
       source = LazySource(runtime, args.self, true)](Value& item) mutable {
        if (!source.next(item)) return false;
        if (call.positional.empty()) raise("map requires a filter argument");
        CallArgs rest{{call.positional.begin() + 1, call.positional.end()}, call.named};
        item = call_filter(runtime, call.positional[0], item, std::move(rest));
        return true;
      });
}

struct Selection {
  bool by_attribute = false;
  bool keep_if = true;  // keep the items whose test has this result
};

Value select_with(Runtime& runtime, const Args& args, Selection how) {
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, how, call = args.raw,
       source = LazySource(runtime, args.self, true)](Value& item) mutable {
        const std::vector<Value>& given = call.positional;
        const std::size_t name_at = how.by_attribute ? 1 : 0;
        while (source.next(item)) {
          if (how.by_attribute && given.empty()) raise("Missing parameter for attribute name");
          const Value subject =
              how.by_attribute ? follow_path(runtime, item, given[0], nullptr) : item;
          bool chosen = false;
          if (given.size() > name_at) {
            const auto rest = given.begin() + static_cast<std::ptrdiff_t>(name_at) + 1;
            chosen = call_test(runtime, given[name_at], subject, {{rest, given.end()}, call.named});
          } else {
            chosen = truth(subject);
          }
          if (chosen == how.keep_if) return true;
        }
        return false;
      });
}

Value select(Runtime& runtime, Args& args) {
  return select_with(runtime, args, {.by_attribute = false, .keep_if = true});
}
Value reject(Runtime& runtime, Args& args) {
  return select_with(runtime, args, {.by_attribute = false, .keep_if = false});
}
Value selectattr(Runtime& runtime, Args& args) {
  return select_with(runtime, args, {.by_attribute = true, .keep_if = true});
}
Value rejectattr(Runtime& runtime, Args& args) {
  return select_with(runtime, args, {.by_attribute = true, .keep_if = false});
}

Value unique(Runtime& runtime, Args& args) {
  const bool case_sensitive = args.flag(0, false);
  const Value path = args.given(1) ? args[1] : Value();
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, case_sensitive, path, seen = std::make_shared<Dict>(),
       source = LazySource(runtime, args.self, false)](Value& item) mutable {
        while (source.next(item)) {
          Value key = follow_path(runtime, item, path, nullptr);
          if (!case_sensitive && key.is_text())
            key = call_filter(runtime, runtime.heap.text("lower"), key, {});
          if (seen->find(runtime.heap, key) != nullptr) continue;
          seen->set(runtime.heap, key, Value());
          runtime.heap.check_memory(seen->size() * sizeof(Dict::Entry));
          return true;
        }
        return false;
      });
}

Value items(Runtime& runtime, Args& args) {
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, dict = args.self, at = std::size_t{0}](Value& item) mutable {
        if (dict.is_undefined()) return false;
        if (!dict.is(Kind::Dict)) raise("Can only get item pairs from a mapping.");
        if (at == dict.dict().size()) return false;
        const auto& [key, value] = dict.dict().entries[at++];
        item = runtime.heap.tuple({key, value});
        return true;
      });
}

Value batch(Runtime& runtime, Args& args) {
  const Value size = args[0];
  const Value fill = args.given(1) ? args[1] : Value();
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, size, fill, pending = std::vector<Value>(), ended = false,
       source = LazySource(runtime, args.self, false)](Value& item) mutable {
        if (ended) return false;
        for (Value next; source.next(next);) {
          if (equals(runtime.heap, Value::size(pending.size()), size)) {
            item = runtime.heap.list(std::move(pending));
            pending = {next};
            return true;
          }
          pending.push_back(next);
        }
        ended = true;
        if (pending.empty()) return false;
        if (!fill.is_none()) {
          if (!size.is_integer())
            raise("batch: linecount must be an integer, not '", type_name(size), "'");
          const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, size.integer()));
          if (wanted > pending.size()) {
            runtime.heap.check_memory(wanted > SIZE_MAX / sizeof(Value) ? SIZE_MAX
                                                                        : wanted * sizeof(Value));
            pending.resize(wanted, fill);
          }
        }
        item = runtime.heap.list(std::move(pending));
        return true;
      });
}

Value slice(Runtime& runtime, Args& args) {
  const std::int64_t slices = args.integer(0, 0);
  const Value fill = args.given(1) ? args[1] : Value();
  return runtime.heap.iterator(
      captured_values(runtime, args),
      [&runtime, slices, fill, source = args.self, all = std::vector<Value>(),
       number = std::int64_t{0}, offset = std::int64_t{0}](Value& item) mutable {
        runtime.heap.step();
        if (number == 0) {
          all = collect(runtime, source);
          if (slices == 0) raise("integer division or modulo by zero");
        }
        if (number >= slices) return false;
        const auto size = static_cast<std::int64_t>(all.size());
        const std::int64_t per_slice = size / slices;
        const std::int64_t with_extra = size % slices;
        const std::int64_t start = offset + number * per_slice;
        if (number < with_extra) ++offset;
        const std::int64_t end = offset + (number + 1) * per_slice;
        std::vector<Value> part(all.begin() + start, all.begin() + end);
        if (!fill.is_none() && number >= with_extra) part.push_back(fill);
        ++number;
        item = runtime.heap.list(std::move(part));
        return true;
      });
}

// clang-format off
constexpr std::array kLazyFilters = {
    Builtin{"map", "*", 0, map},
    Builtin{"select", "*", 0, select},
    Builtin{"reject", "*", 0, reject},
    Builtin{"selectattr", "*", 0, selectattr},
    Builtin{"rejectattr", "*", 0, rejectattr},
    Builtin{"unique", "case_sensitive attribute", 0, unique},
    Builtin{"items", "", 0, items},
    Builtin{"batch", "linecount fill_with", 1, batch},
    Builtin{"slice", "slices fill_with", 1, slice},
};
// clang-format on

}  // namespace

std::span<const Builtin> lazy_filters() {
  return kLazyFilters;
}

}  // namespace graft::jinja
