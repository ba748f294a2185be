// Reads little-endian values front to back from untrusted bytes. Every read is checked against the
// remaining bytes, and a count before memory is reserved for it.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace graft::formats {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they stand");

class ByteReader {
 public:
  // Errors begin with `where`.
  ByteReader(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  // The subject of Errors from here on: "key \"general.name\"".
  void enter(std::string subject) { subject_ = std::move(subject); }

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> since(std::size_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> take(std::uint64_t num_bytes) {
    if (num_bytes > remaining()) fail_short(num_bytes);
    position_ += num_bytes;
    return bytes_.subspan(position_ - num_bytes, num_bytes);
  }

  // A 64-bit length and that many bytes.
  std::string_view string() {
    const auto text = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // A 64-bit count of elements of at least `min_bytes` each.
  std::uint64_t count(std::string_view things, std::size_t min_bytes);

  // Throws Error with the subject before `message`.
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  [[noreturn]] void fail_short(std::uint64_t num_bytes) const;

  std::span<const std::byte> bytes_;
  std::string where_;
  std::string subject_;
  std::size_t position_ = 0;
};

}  // namespace graft::formats
