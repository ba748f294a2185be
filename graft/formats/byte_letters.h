// Byte-level BPE writes the 256 bytes as printable characters: printable Latin-1 bytes map to
// themselves, the others (space, control, …) to the code points from U+0100 on, in order.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace graft::formats {

// Code points by byte, all below U+0180.
constexpr std::array<std::int32_t, 256> make_byte_letters() {
  std::array<std::int32_t, 256> letters{};
  std::int32_t next = 0x100;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    const bool stands_for_itself =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    letters[static_cast<std::size_t>(byte)] = stands_for_itself ? byte : next++;
  }
  return letters;
}

inline constexpr std::array<std::int32_t, 256> kByteLetters = make_byte_letters();

}  // namespace graft::formats
