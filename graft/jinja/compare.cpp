// Truth, length, equality, order and hash of values with Python's semantics.

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <functional>

#include "graft/jinja/value.h"

namespace graft::jinja {
namespace {

struct KindName {
  Kind kind;
  std::string_view name;
};

constexpr std::array kKindNames = {
    KindName{Kind::Missing, "missing"},
    KindName{Kind::Undefined, "Undefined"},
    KindName{Kind::None, "NoneType"},
    KindName{Kind::Bool, "bool"},
    KindName{Kind::Int, "int"},
    KindName{Kind::Float, "float"},
    KindName{Kind::Text, "str"},
    KindName{Kind::List, "list"},
    KindName{Kind::Tuple, "tuple"},
    KindName{Kind::Dict, "dict"},
    KindName{Kind::View, "dict view"},
    KindName{Kind::Range, "range"},
    KindName{Kind::Iterator, "generator"},
};

// Exact: the mantissa of long double (64 bits or more) represents every int64 and every double.
std::partial_ordering order_of_numbers(const Value& a, const Value& b) {
  const auto wide = [](const Value& value) {
    return value.is_integer() ? static_cast<long double>(value.integer())
                              : static_cast<long double>(value.real());
  };
  return wide(a) <=> wide(b);
}

bool equal_items(Heap& counter, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::ranges::equal(a, b,
                            [&](const Value& x, const Value& y) { return equals(counter, x, y); });
}

bool equal_dicts(Heap& counter, const Dict& a, const Dict& b) {
  return a.size() == b.size() && std::ranges::all_of(a.entries, [&](const Dict::Entry& entry) {
           const Value* other = b.find(counter, entry.first);
           return other != nullptr && equals(counter, entry.second, *other);
         });
}

bool equal_ranges(const NumberRange& a, const NumberRange& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

bool less_items(Heap& counter, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equals(counter, a[i], b[i])) return less(counter, a[i], b[i]);
  }
  return a.size() < b.size();
}

std::size_t mix(std::size_t seed, std::size_t hash) {
  return seed ^ (hash + 0x9e3779b97f4a7c15ULL + (seed << 6U) + (seed >> 2U));
}

std::size_t hash_of_number(const Value& value) {
  const double real = value.real();
  // 1, 1.0 and True are equal keys and must have equal hashes.
  if (value.is_integer()) return std::hash<std::int64_t>()(value.integer());
  if (std::floor(real) == real && std::fabs(real) < 9e18)
    return std::hash<std::int64_t>()(static_cast<std::int64_t>(real));
  return std::hash<double>()(real);
}

}  // namespace

std::string_view type_name(const Value& value) {
  if (value.is(Kind::Native)) return value.native().type_name();
  if (value.is_text() && value.text().is_markup) return "Markup";
  return std::ranges::find(kKindNames, value.kind(), &KindName::kind)->name;
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::Missing:
    case Kind::Undefined:
    case Kind::None:
      return false;
    case Kind::Bool:
    case Kind::Int:
      return value.integer() != 0;
    case Kind::Float:
      return value.real() != 0;
    case Kind::Iterator:
    case Kind::Native:
      return true;
    default:
      break;
  }
  std::size_t size = 0;
  return length(value, size) && size != 0;
}

bool length(const Value& value, std::size_t& result) {
  switch (value.kind()) {
    case Kind::Undefined:
      result = 0;
      return true;
    case Kind::Text:
      result = value.text().length;
      return true;
    case Kind::List:
    case Kind::Tuple:
      result = value.items().size();
      return true;
    case Kind::Dict:
      result = value.dict().size();
      return true;
    case Kind::View:
      result = value.view().dict.dict().size();
      return true;
    case Kind::Range:
      result = static_cast<std::size_t>(value.range().size());
      return true;
    default:
      return false;
  }
}

bool equals(Heap& counter, const Value& a, const Value& b) {
  counter.step();
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::Undefined:
    case Kind::None:
      return true;
    case Kind::Text:
      if (a.str().size() == b.str().size()) counter.step(a.str().size() / 64);
      return a.str() == b.str();
    case Kind::List:
    case Kind::Tuple:
      return equal_items(counter, a.items(), b.items());
    case Kind::Dict:
      return equal_dicts(counter, a.dict(), b.dict());
    case Kind::Range:
      return equal_ranges(a.range(), b.range());
    default:
      return a.object() == b.object();
  }
}

bool less(Heap& counter, const Value& a, const Value& b) {
  counter.step();
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) < 0;
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) raise(value->undefined_message());
  }
  if (a.is_text() && b.is_text()) {
    counter.step(std::min(a.str().size(), b.str().size()) / 64);
    return a.str() < b.str();  // byte order of UTF-8 is code point order
  }
  if (a.is_sequence() && a.kind() == b.kind()) return less_items(counter, a.items(), b.items());
  raise("'<' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

std::size_t hash_of(Heap& counter, const Value& value) {
  counter.step();
  switch (value.kind()) {
    case Kind::Bool:
    case Kind::Int:
    case Kind::Float:
      return hash_of_number(value);
    case Kind::Text:
      counter.step(value.str().size() / 64);
      return std::hash<std::string_view>()(value.str());
    case Kind::Tuple: {
      std::size_t hash = 1;
      for (const Value& item : value.items())
        hash = mix(hash, hash_of(counter, item));
      return hash;
    }
    case Kind::List:
    case Kind::Dict:
      raise("unhashable type: '", type_name(value), "'");
    case Kind::None:
    case Kind::Undefined:
    case Kind::Missing:
      return static_cast<std::size_t>(value.kind());
    default:
      return std::hash<const Object*>()(value.object().get());
  }
}

}  // namespace graft::jinja
