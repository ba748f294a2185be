// Reads the integers of GIF and BMP files, little endian, with a check of the bounds.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graft/base/error.h"

namespace graft::vision {

class LittleEndian {
 public:
  // `format` begins messages: "GIF".
  LittleEndian(std::string_view format, std::span<const std::byte> bytes)
      : format_(format), bytes_(bytes) {}

  void seek(std::size_t offset) { at_ = offset; }
  std::size_t at() const { return at_; }
  std::span<const std::byte> take(std::size_t count) {
    if (at_ > bytes_.size() || count > bytes_.size() - at_)
      fail(format_, " image: the file is truncated");
    const std::span<const std::byte> part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  std::uint8_t u8() { return std::to_integer<std::uint8_t>(take(1)[0]); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return integer(4); }
  std::int32_t i32() { return static_cast<std::int32_t>(integer(4)); }

 private:
  std::uint32_t integer(std::size_t count) {
    std::uint32_t value = 0;
    const std::span<const std::byte> part = take(count);
    for (std::size_t i = 0; i < count; ++i)
      value |= std::to_integer<std::uint32_t>(part[i]) << (8 * i);
    return value;
  }

  std::string_view format_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace graft::vision
