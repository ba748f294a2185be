#include "graft/formats/gguf/metadata.h"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "graft/base/error.h"
#include "graft/formats/byte_reader.h"

namespace graft::formats {
namespace {

constexpr std::array<std::string_view, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

// The type a value is stored as; void for types without a fixed size.
template <std::size_t kIndex>
using Stored = std::variant_alternative_t<kIndex, GgufValue>;

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class T>
constexpr bool kIsNumber = kIsInteger<T> || std::is_floating_point_v<T>;

// Calls visit(T{}) with the C++ type of `type`; the variant's order is the file's numbering.
template <class Visit>
auto with_type(GgufType type, Visit visit) {
  switch (type) {
    case GgufType::U8:
      return visit(Stored<0>{});
    case GgufType::I8:
      return visit(Stored<1>{});
    case GgufType::U16:
      return visit(Stored<2>{});
    case GgufType::I16:
      return visit(Stored<3>{});
    case GgufType::U32:
      return visit(Stored<4>{});
    case GgufType::I32:
      return visit(Stored<5>{});
    case GgufType::F32:
      return visit(Stored<6>{});
    case GgufType::Bool:
      return visit(Stored<7>{});
    case GgufType::String:
      return visit(Stored<8>{});
    case GgufType::Array:
      return visit(Stored<9>{});
    case GgufType::U64:
      return visit(Stored<10>{});
    case GgufType::I64:
      return visit(Stored<11>{});
    case GgufType::F64:
      return visit(Stored<12>{});
  }
  fail("metadata type ", static_cast<std::uint32_t>(type), " is unknown");
}

template <class T>
bool fits_int64(T value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  return true;
}

template <class T>
void append_bytes(std::vector<std::byte>& bytes, const T* values, std::size_t count) {
  if (count == 0) return;
  const std::size_t old_size = bytes.size();
  bytes.resize(old_size + count * sizeof(T));
  std::memcpy(bytes.data() + old_size, values, count * sizeof(T));
}

template <class T>
GgufArray array_of_numbers(GgufType type, const std::vector<T>& values) {
  GgufArray array{.type = type, .count = values.size(), .bytes = {}};
  append_bytes(array.bytes, values.data(), values.size());
  return array;
}

// The elements of an array of T, each turned into a Wanted.
template <class Wanted, class T>
std::vector<Wanted> read_all(const GgufArray& array) {
  ByteReader reader(array.bytes, "metadata array");
  if (array.count != array.bytes.size() / sizeof(T)) {
    reader.fail_here(
        str(array.count, " elements of ", name(array.type), " in ", array.bytes.size(), " bytes"));
  }
  std::vector<Wanted> values;
  values.reserve(array.count);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    const T value = reader.number<T>();
    if (std::is_integral_v<Wanted> && !fits_int64(value)) {
      reader.fail_here(str("element ", i, " is ", value, ", above the range of int64"));
    }
    values.push_back(static_cast<Wanted>(value));
  }
  return values;
}

[[noreturn]] void fail_kind(std::string_view key, const GgufValue& value, std::string_view needed) {
  fail("metadata key \"", key, "\" is ", name(type_of(value)), ", expected ", needed);
}

}  // namespace

std::string_view name(GgufType type) {
  const auto idx = static_cast<std::size_t>(type);
  return idx < kTypeNames.size() ? kTypeNames[idx] : "unknown";
}

GgufType type_of(const GgufValue& value) {
  return static_cast<GgufType>(value.index());
}

GgufArray GgufArray::of(const std::vector<std::string>& values) {
  GgufArray array{.type = GgufType::String, .count = values.size(), .bytes = {}};
  std::size_t num_bytes = 0;
  for (const std::string& value : values)
    num_bytes += sizeof(std::uint64_t) + value.size();
  array.bytes.reserve(num_bytes);
  for (const std::string& value : values) {
    const std::uint64_t length = value.size();
    append_bytes(array.bytes, &length, 1);
    append_bytes(array.bytes, value.data(), value.size());
  }
  return array;
}

GgufArray GgufArray::of(const std::vector<std::int32_t>& values) {
  return array_of_numbers(GgufType::I32, values);
}

GgufArray GgufArray::of(const std::vector<float>& values) {
  return array_of_numbers(GgufType::F32, values);
}

std::optional<std::vector<std::string>> GgufArray::strings() const {
  if (type != GgufType::String) return std::nullopt;
  ByteReader reader(bytes, "metadata array");
  std::vector<std::string> values;
  if (count <= bytes.size() / sizeof(std::uint64_t)) values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    values.emplace_back(reader.string());
  return values;
}

std::optional<std::vector<std::int64_t>> GgufArray::integers() const {
  return with_type(type, [&](auto stored) -> std::optional<std::vector<std::int64_t>> {
    using T = decltype(stored);
    if constexpr (kIsInteger<T>) return read_all<std::int64_t, T>(*this);
    return std::nullopt;
  });
}

std::optional<std::vector<double>> GgufArray::numbers() const {
  return with_type(type, [&](auto stored) -> std::optional<std::vector<double>> {
    using T = decltype(stored);
    if constexpr (kIsNumber<T>) return read_all<double, T>(*this);
    return std::nullopt;
  });
}

void GgufMetadata::set(std::string key, GgufValue value) {
  const auto [place, is_new] = index_.try_emplace(key, entries_.size());
  if (is_new) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

void GgufMetadata::erase(std::string_view key) {
  const auto place = index_.find(key);
  if (place == index_.end()) return;
  const std::size_t erased = place->second;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(erased));
  index_.erase(place);
  for (auto& [other, idx] : index_) {
    if (idx > erased) --idx;
  }
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto place = index_.find(key);
  return place == index_.end() ? nullptr : &entries_[place->second].second;
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return std::visit(
      [&](const auto& stored) -> std::int64_t {
        if constexpr (kIsInteger<std::decay_t<decltype(stored)>>) {
          if (fits_int64(stored)) return static_cast<std::int64_t>(stored);
          fail("metadata key \"", key, "\" is ", stored, ", above the range of int64");
        }
        fail_kind(key, *value, "an integer");
      },
      *value);
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return std::visit(
      [&](const auto& stored) -> double {
        if constexpr (kIsNumber<std::decay_t<decltype(stored)>>) {
          return static_cast<double>(stored);
        }
        fail_kind(key, *value, "a number");
      },
      *value);
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* stored = std::get_if<bool>(value)) return *stored;
  fail_kind(key, *value, "a bool");
}

std::optional<std::string> GgufMetadata::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* stored = std::get_if<std::string>(value)) return *stored;
  fail_kind(key, *value, "a string");
}

const GgufArray* GgufMetadata::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* stored = std::get_if<GgufArray>(value)) return stored;
  fail_kind(key, *value, "an array");
}

}  // namespace graft::formats
