// Attribute access, subscripts and slices.

#include <algorithm>
#include <array>
#include <limits>

#include "graft/jinja/builtins/builtin.h"
#include "graft/jinja/unicode.h"

namespace graft::jinja {
namespace {

// Mutating methods, which Jinja's immutable sandbox forbids.
struct Forbidden {
  Kind kind;
  std::string_view name;
};
constexpr std::array kForbidden = {
    Forbidden{Kind::List, "append"},  Forbidden{Kind::List, "clear"},
    Forbidden{Kind::List, "extend"},  Forbidden{Kind::List, "insert"},
    Forbidden{Kind::List, "pop"},     Forbidden{Kind::List, "remove"},
    Forbidden{Kind::List, "reverse"}, Forbidden{Kind::List, "sort"},
    Forbidden{Kind::Dict, "clear"},   Forbidden{Kind::Dict, "pop"},
    Forbidden{Kind::Dict, "popitem"}, Forbidden{Kind::Dict, "setdefault"},
    Forbidden{Kind::Dict, "update"},
};

std::string object_text(const Value& object) {
  return object.is_none() ? "None" : str(type_name(object), " object");
}

Value no_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.heap.undefined(str("'", object_text(object), "' has no attribute '", name, "'"));
}

bool field_of_range(const NumberRange& range, std::string_view name, Value& value) {
  if (name == "start") return value = Value(range.start), true;
  if (name == "stop") return value = Value(range.stop), true;
  if (name == "step") return value = Value(range.step), true;
  return false;
}

bool field_of_number(const Value& number, std::string_view name, Value& value) {
  const bool is_integer = number.is_integer();
  if (name == "real" || (is_integer && name == "numerator")) {
    value = is_integer ? Value(number.integer()) : number;
  } else if (name == "imag") {
    value = is_integer ? Value(std::int64_t{0}) : Value(0.0);
  } else if (is_integer && name == "denominator") {
    value = Value(std::int64_t{1});
  } else {
    return false;
  }
  return true;
}

// Python's getattr() inside the sandbox; false when there is no such attribute.
bool find_attribute(Runtime& runtime, const Value& object, std::string_view name, Value& value) {
  const bool is_forbidden = std::ranges::any_of(
      kForbidden, [&](const Forbidden& row) { return object.is(row.kind) && row.name == name; });
  const auto unsafe = [&] {
    return runtime.heap.undefined(
        str("access to attribute '", name, "' of '", type_name(object), "' object is unsafe."));
  };
  if (is_forbidden) return value = unsafe(), true;
  if (object.is(Kind::Native) && object.native().attribute(runtime, name, value)) {
    if (name.starts_with('_')) value = unsafe();
    return true;
  }
  if (object.is(Kind::Tuple) && static_cast<const List&>(*object.object()).is_group &&
      (name == "grouper" || name == "list"))
    return value = object.items()[name == "list" ? 1 : 0], true;
  if (object.is_number()) return field_of_number(object, name, value);
  if (object.is(Kind::Range) && field_of_range(object.range(), name, value)) return true;
  const Builtin* method = find_method(object, name);
  if (method == nullptr) return false;
  value = make_function(runtime, *method, object);
  return true;
}

// Resolves a negative Python index; false when it is out of range.
bool resolve_index(std::int64_t index, std::size_t size, std::size_t& result) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return false;
  result = static_cast<std::size_t>(index);
  return true;
}

Value char_at(Runtime& runtime, const Text& text, std::size_t index) {
  if (text.is_ascii()) return runtime.heap.text(std::string(1, text.bytes[index]), text.is_markup);
  runtime.heap.step(index / 64);
  const std::size_t begin = byte_offset(text.bytes, index);
  const std::size_t size = decode_utf8(text.bytes, begin).size;
  return runtime.heap.text(text.bytes.substr(begin, size), text.is_markup);
}

// Python's obj[key]; false instead of a TypeError or LookupError.
bool subscript(Runtime& runtime, const Value& object, const Value& key, Value& value) {
  if (object.is(Kind::Dict)) {
    if (key.is(Kind::List) || key.is(Kind::Dict)) return false;
    const Value* found = object.dict().find(runtime.heap, key);
    if (found != nullptr) value = *found;
    return found != nullptr;
  }
  std::size_t index = 0;
  std::size_t size = 0;
  const bool is_indexed = object.is_text() || object.is_sequence() || object.is(Kind::Range);
  if (!is_indexed || !key.is_integer() || !length(object, size)) return false;
  if (!resolve_index(key.integer(), size, index)) return false;
  if (object.is_text()) {
    value = char_at(runtime, object.text(), index);
  } else if (object.is(Kind::Range)) {
    value = Value(object.range().at(static_cast<std::int64_t>(index)));
  } else {
    value = object.items()[index];
  }
  return true;
}

struct SliceBounds {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

std::int64_t slice_index(const Value& value) {
  if (!value.is_integer())
    raise("slice indices must be integers or None or have an __index__ method");
  return value.integer();
}

// As CPython's PySlice_AdjustIndices.
SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step, std::size_t n) {
  SliceBounds bounds;
  const auto size = static_cast<std::int64_t>(n);
  if (!step.is_none()) bounds.step = slice_index(step);
  if (bounds.step == 0) raise("slice step cannot be zero");
  bounds.step = std::max(bounds.step, -std::numeric_limits<std::int64_t>::max());
  const bool backwards = bounds.step < 0;
  const auto clamp = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    const std::int64_t index = slice_index(value);
    if (index < 0) return index < -size ? (backwards ? -1 : 0) : index + size;
    return index >= size ? (backwards ? size - 1 : size) : index;
  };
  bounds.start = clamp(start, backwards ? size - 1 : 0);
  bounds.stop = clamp(stop, backwards ? -1 : size);
  if (backwards) {
    if (bounds.stop < bounds.start)
      bounds.count = (bounds.start - bounds.stop - 1) / -bounds.step + 1;
  } else if (bounds.start < bounds.stop) {
    bounds.count = (bounds.stop - bounds.start - 1) / bounds.step + 1;
  }
  return bounds;
}

Value slice_text(Runtime& runtime, const Text& text, const SliceBounds& bounds) {
  const auto start = static_cast<std::size_t>(bounds.start);
  const auto count = static_cast<std::size_t>(bounds.count);
  runtime.heap.step(text.bytes.size() / 64);
  if (count == 0) return runtime.heap.text("", text.is_markup);
  if (bounds.step == 1) {
    const std::size_t begin = text.is_ascii() ? start : byte_offset(text.bytes, start);
    const std::string_view rest = std::string_view(text.bytes).substr(begin);
    const std::size_t size = text.is_ascii() ? count : byte_offset(rest, count);
    return runtime.heap.text(std::string(rest.substr(0, size)), text.is_markup);
  }
  std::vector<std::string_view> chars;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t size = decode_utf8(text.bytes, at).size;
    chars.push_back(std::string_view(text.bytes).substr(at, size));
    at += size;
  }
  std::string out;
  for (std::int64_t i = 0; i < bounds.count; ++i)
    out += chars.at(static_cast<std::size_t>(bounds.start + i * bounds.step));
  return runtime.heap.text(std::move(out), text.is_markup);
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) raise(object.undefined_message());
  Value value;
  if (find_attribute(runtime, object, name, value)) return value;
  if (object.is(Kind::Dict)) {
    const Value* found = object.dict().find(name);
    if (found != nullptr) return *found;
  }
  return no_attribute(runtime, object, name);
}

Value get_plain_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) raise(object.undefined_message());
  Value value;
  return find_attribute(runtime, object, name, value) ? value : no_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) raise(object.undefined_message());
  Value value;
  if (subscript(runtime, object, key, value)) return value;
  if (key.is_text()) {
    if (find_attribute(runtime, object, key.str(), value)) return value;
    return no_attribute(runtime, object, key.str());
  }
  return runtime.heap.undefined(
      str(object_text(object), " has no element ", to_repr(runtime, key)));
}

Value get_slice(Runtime& runtime,
                const Value& object,
                const Value& start,
                const Value& stop,
                const Value& step) {
  if (object.is_undefined()) raise(object.undefined_message());
  if (object.is(Kind::Dict)) raise("unhashable type: 'slice'");
  std::size_t size = 0;
  const bool is_sliced = object.is_text() || object.is_sequence() || object.is(Kind::Range);
  if (!is_sliced || !length(object, size))
    raise("'", type_name(object), "' object is not subscriptable");
  const SliceBounds bounds = slice_bounds(start, stop, step, size);
  if (object.is_text()) return slice_text(runtime, object.text(), bounds);
  if (object.is(Kind::Range)) {
    const NumberRange& range = object.range();
    // Clamped so that the product cannot overflow: any step beyond the size selects one item.
    const auto all = static_cast<std::int64_t>(size) + 1;
    return runtime.heap.range(range.at(bounds.start), range.at(bounds.stop),
                              range.step * std::clamp(bounds.step, -all, all));
  }
  std::vector<Value> items;
  for (std::int64_t i = 0; i < bounds.count; ++i)
    items.push_back(object.items()[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
  return object.is(Kind::List) ? runtime.heap.list(std::move(items))
                               : runtime.heap.tuple(std::move(items));
}

Value follow_path(Runtime& runtime, Value object, const Value& path, const Value* fallback) {
  const auto follow = [&](const Value& key) {
    object = get_item(runtime, object, key);
    if (fallback != nullptr && object.is_undefined()) object = *fallback;
  };
  if (path.is_none()) return object;
  if (!path.is_text()) {
    follow(path);
    return object;
  }
  std::string_view rest = path.str();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool is_index = !part.empty() && part.size() < 18 &&
                          std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    follow(is_index ? Value(static_cast<std::int64_t>(std::stoll(part))) : runtime.heap.text(part));
    if (dot == std::string_view::npos) return object;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace graft::jinja
