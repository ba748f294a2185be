#include "graft/formats/byte_letters.h"

namespace graft::formats {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Of a code point below U+0800.
std::string utf8(int point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
}

std::array<std::string, 256> make_letters() {
  std::array<std::string, 256> letters;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    letters[static_cast<std::size_t>(byte)] = utf8(stands_for_itself(byte) ? byte : next++);
  return letters;
}

}  // namespace

const std::array<std::string, 256>& byte_letters() {
  static const std::array<std::string, 256> letters = make_letters();
  return letters;
}

}  // namespace graft::formats
