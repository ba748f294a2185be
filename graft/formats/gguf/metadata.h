// Key-value metadata of a GGUF file: typed values under dotted keys, in file order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace graft::formats {

// Values as in the file.
enum class GgufType : std::uint32_t {
  U8 = 0,
  I8 = 1,
  U16 = 2,
  I16 = 3,
  U32 = 4,
  I32 = 5,
  F32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  U64 = 10,
  I64 = 11,
  F64 = 12,
};

std::string_view name(GgufType type);

// An array keeps its elements encoded: vocabularies have hundreds of thousands of strings and most
// commands never read them.
struct GgufArray {
  GgufType type = GgufType::U8;
  std::uint64_t count = 0;
  std::vector<std::byte> bytes;

  static GgufArray of(const std::vector<std::string>& values);
  static GgufArray of(const std::vector<std::int32_t>& values);
  static GgufArray of(const std::vector<float>& values);

  // nullopt when the elements are of another kind: any integer type counts as integer and any
  // number type as number, bool as neither. Throws Error for a u64 above int64's range.
  std::optional<std::vector<std::string>> strings() const;
  std::optional<std::vector<std::int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;

  bool operator==(const GgufArray&) const = default;
};

// The alternatives are in the order of GgufType.
using GgufValue = std::variant<std::uint8_t,
                               std::int8_t,
                               std::uint16_t,
                               std::int16_t,
                               std::uint32_t,
                               std::int32_t,
                               float,
                               bool,
                               std::string,
                               GgufArray,
                               std::uint64_t,
                               std::int64_t,
                               double>;

GgufType type_of(const GgufValue& value);

class GgufMetadata {
 public:
  // Replaces the value of an existing key, else appends.
  void set(std::string key, GgufValue value);
  void erase(std::string_view key);

  const std::vector<std::pair<std::string, GgufValue>>& entries() const { return entries_; }
  const GgufValue* find(std::string_view key) const;

  // nullopt when the key is absent; throws Error with the key when it is of another kind. Any
  // integer type counts as integer and any number type as number, bool as neither.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;  // null when absent

 private:
  std::vector<std::pair<std::string, GgufValue>> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // index of a key in entries_
};

}  // namespace graft::formats
